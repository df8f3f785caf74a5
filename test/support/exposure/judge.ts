/** Traces packets through the fake kernel's state: rules, sets, addresses and virtual servers. */
import { type IpFamily, ipFamilies } from "../../../src/base/ip.ts";
import { follow } from "../../../src/explain/packet/follow.ts";
import type { NodeState } from "../../../src/explain/packet/node-state.ts";
import type { Packet } from "../../../src/explain/packet/packet.ts";
import type { PathEnd } from "../../../src/explain/packet/path.ts";
import type { FakeKernel } from "../fake-kernel/fake-kernel.ts";
import { nodeStatesOf } from "../fake-kernel/node-state-of.ts";

/**
 * The end of a packet's path, as far as it matters for source ranges. `no-endpoint` means that its virtual server is
 * empty.
 */
export type Fate = "endpoint" | "node" | "no-endpoint" | "stopped";

/** Returns the fate of each packet, in packet order. */
export function fatesOf(kernel: FakeKernel, packets: readonly Packet[]): readonly Fate[] {
  const states = new Map<IpFamily, readonly NodeState[]>();
  for (const family of ipFamilies) {
    if (packets.some((packet) => packet.family === family)) {
      states.set(family, nodeStatesOf(kernel, family));
    }
  }
  return packets.map((packet) => {
    const fates = (states.get(packet.family) ?? []).map((state) =>
      fateOf(follow(packet, state).end),
    );
    return fates.find((fate) => fate === "stopped") ?? fates[0] ?? "stopped";
  });
}

function fateOf(end: PathEnd): Fate {
  if (end.kind === "node" || end.kind === "no-endpoint") return end.kind;
  // The listeners of userspace mode are unknown.
  if (end.kind === "unheard") return "endpoint";
  if (end.kind !== "balanced") return "stopped";
  return end.endpoints.some(({ fate }) => fate === "delivered") ? "endpoint" : "stopped";
}
