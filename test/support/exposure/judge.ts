/** Follows packets through what the fake kernel holds: its rules, sets, addresses and virtual servers. */
import { type IpFamily, ipFamilies } from "../../../src/base/ip.ts";
import type { Packet } from "../../../src/explain/packet/packet.ts";
import type { PathEnd } from "../../../src/explain/packet/path.ts";
import type { Picture } from "../../../src/explain/packet/picture.ts";
import type { FakeKernel } from "../fake-kernel/fake-kernel.ts";
import { fakeNetwork, pictureOf } from "../fake-kernel/picture-of.ts";
import type { Mode } from "./programs.ts";

/** Where a packet ends, as far as exposure is concerned. */
export type Fate = "endpoint" | "node" | "stopped";

/** The fate of each packet, in their order. */
export function fatesOf(
  { follow }: Mode,
  kernel: FakeKernel,
  packets: readonly Packet[],
): readonly Fate[] {
  const pictures = new Map<IpFamily, Picture>();
  for (const family of ipFamilies) {
    if (packets.some((packet) => packet.family === family)) {
      pictures.set(family, pictureOf(kernel, family));
    }
  }
  return packets.map((packet) => {
    const picture = pictures.get(packet.family) as Picture;
    const surroundings = { picture, network: fakeNetwork, onNode: new Set<string>() };
    return fateOf(follow({ packet, surroundings }).end);
  });
}

function fateOf(end: PathEnd): Fate {
  if (end.kind === "node") return "node";
  if (end.kind !== "balanced") return "stopped";
  return end.endpoints.some(({ fate }) => fate === "delivered") ? "endpoint" : "stopped";
}
