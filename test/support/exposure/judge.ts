/** Follows packets through what the fake kernel holds: its rules, sets, addresses and virtual servers. */
import { type IpAddress, type IpFamily, ipFamilies } from "../../../src/base/ip.ts";
import type { Packet } from "../../../src/explain/packet/packet.ts";
import type { PathEnd } from "../../../src/explain/packet/path.ts";
import type {
  ListedRule,
  ListedServer,
  ListedSet,
  NodeNetwork,
  Picture,
} from "../../../src/explain/packet/picture.ts";
import { listedRule } from "../../../src/explain/read/read-chains.ts";
import { chainKey } from "../../../src/state/rule.ts";
import { virtualServerKey } from "../../../src/state/virtual-server.ts";
import type { FakeKernel } from "../fake-kernel/fake-kernel.ts";
import { standardNodeAddresses } from "../fake-kernel/fake-link.ts";
import type { Mode } from "./programs.ts";

/** Where a packet ends, as far as exposure is concerned. */
export type Fate = "endpoint" | "node" | "stopped";

const network: NodeNetwork = {
  addresses: new Set(standardNodeAddresses.map(({ address }) => address)),
  routes: new Map(),
  listeners: new Set(),
  isIpvsTracked: true,
  isForwarding: true,
  isLoopbackRouted: false,
  isBridgeFiltered: false,
};

/** Rules are parsed once: every request leaves nearly all of them as they were. */
const parsed = new Map<string, ListedRule>();

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
    const surroundings = { picture, network, onNode: new Set<string>() };
    return fateOf(follow({ packet, surroundings }).end);
  });
}

function fateOf(end: PathEnd): Fate {
  if (end.kind === "node") return "node";
  if (end.kind !== "balanced") return "stopped";
  return end.endpoints.some(({ fate }) => fate === "delivered") ? "endpoint" : "stopped";
}

function pictureOf({ iptables, ipSets, ipvs, link }: FakeKernel, family: IpFamily): Picture {
  const chains = iptables
    .peek(family)
    .map(
      ({ table, name, rules }) =>
        [chainKey(table, name), rules.map(({ text }) => parsedRule(text))] as const,
    );
  const sets = ipSets
    .peek()
    .map(({ set, entries }): readonly [string, ListedSet] => [
      set.name,
      { type: set.type, entries: new Set(entries) },
    ]);
  const servers = ipvs
    .peek()
    .map((server): readonly [string, ListedServer] => [
      virtualServerKey(server.virtualServer),
      server,
    ]);
  return {
    chains: new Map(chains),
    sets: new Map(sets),
    servers: new Map(servers),
    bound: new Set<IpAddress>(link.peek()),
  };
}

function parsedRule(text: string): ListedRule {
  const known = parsed.get(text) ?? listedRule({ text });
  parsed.set(text, known);
  return known;
}
