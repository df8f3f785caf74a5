import {
  broadcastOf,
  type IpAddress,
  type IpFamily,
  ipFamilies,
  isIpv6LinkLocal,
  isLoopback,
} from "../base/ip.ts";
import type { Iptables, Kernel } from "../kernel/kernel.ts";
import { setsFor, temporaryNameOf } from "../plan/sets.ts";
import { type IpSet, isSwappable, type ObservedIpSet } from "../state/ip-set.ts";
import type { RuleSet } from "../state/rule.ts";
import { virtualServerKey } from "../state/virtual-server.ts";
import type { DesiredView } from "./desired-view.ts";
import { knownRulesOf } from "./diff-rules.ts";
import { type KnownRules, KnownState } from "./known-state.ts";
import type { SyncGoal } from "./sync-context.ts";

/** What an observation has to do with. */
export type ObservationGoal = Pick<SyncGoal, "rules" | "sysctls"> & {
  /** Real servers that are as they should be are in memory once. */
  readonly desired?: Pick<DesiredView, "virtualServer">;
};

/** Reads everything of ours in the kernel. Rules are read only for the families of the planned ones. */
export async function observe(
  kernel: Kernel,
  { rules, sysctls = [], desired }: ObservationGoal,
): Promise<KnownState> {
  const known = new KnownState();
  await observeLink(kernel, known);
  await observeSets(kernel, known);
  await observeServers(kernel, known, desired);
  for (const [family, planned] of rules) {
    known.rules.set(family, await observeRules(kernel.iptables, family, planned));
  }
  for (const { path } of sysctls) known.sysctls.set(path, kernel.sysctl.read(path));
  return known;
}

/** The addresses of this node, neither loopback nor IPv6 link-local. */
export interface ObservedAddresses {
  /** On kube-ipvs0, each once; absent where there is no such link. */
  readonly bound: readonly IpAddress[] | undefined;
  /** On all other links, up or down. */
  readonly ofNode: ReadonlySet<IpAddress>;
  /** Of the IPv4 networks of those links. */
  readonly broadcasts: ReadonlySet<IpAddress>;
}

export async function observeAddresses(kernel: Kernel): Promise<ObservedAddresses> {
  const link = await kernel.link.find();
  const bound: IpAddress[] = [];
  const ofNode = new Set<IpAddress>();
  const broadcasts = new Set<IpAddress>();
  for (const { address, prefixLength, linkIndex } of await kernel.link.listAddresses()) {
    if (!isServiceable(address)) continue;
    if (linkIndex === link?.index) bound.push(address);
    else ofNode.add(address);
    const broadcast = broadcastOf({ address, prefixLength });
    if (broadcast !== undefined) broadcasts.add(broadcast);
  }
  return { bound: link === undefined ? undefined : bound, ofNode, broadcasts };
}

/** Only our chains and those with our jumps are read: a busy node has thousands of others. */
export async function observeRules(
  iptables: Iptables,
  family: IpFamily,
  planned: RuleSet,
): Promise<KnownRules> {
  const names = [
    ...planned.chains.map(({ name }) => name),
    ...planned.jumps.map(({ from }) => from),
  ];
  const observed = await iptables.observe(family, new Set(names));
  return knownRulesOf(observed, planned, (rule) => iptables.render(family, rule));
}

async function observeLink(kernel: Kernel, known: KnownState): Promise<void> {
  const { bound } = await observeAddresses(kernel);
  known.hasLink = bound !== undefined;
  for (const address of bound ?? []) known.addresses.add(address);
}

const ourSets: ReadonlyMap<string, IpSet> = new Map(
  ipFamilies.flatMap(setsFor).map((set) => [set.name, set]),
);

const temporaryNames: ReadonlySet<string> = new Set([...ourSets.keys()].map(temporaryNameOf));

async function observeSets({ ipSets }: Kernel, known: KnownState): Promise<void> {
  for (const observed of await ipSets.listSets()) {
    if (temporaryNames.has(observed.name)) known.temporarySets.add(observed.name);
    const set = ourSets.get(observed.name);
    if (set === undefined) continue;
    known.sets.set(set.name, observed);
    if (!isSwappable(set, observed)) continue;
    const entries = isEmpty(observed) ? [] : await ipSets.listEntries(set);
    known.setEntries.set(set.name, new Set(entries));
  }
}

/** An empty set is not worth a request, and bitmap sets do not always count. */
function isEmpty({ elementCount, type }: ObservedIpSet): boolean {
  return elementCount === 0 && type !== "bitmap:port";
}

async function observeServers(
  kernel: Kernel,
  known: KnownState,
  desired: ObservationGoal["desired"],
): Promise<void> {
  const { virtualServers } = await kernel.ipvs.observe(
    (key) => desired?.virtualServer(key)?.realServers,
  );
  for (const { virtualServer, realServers } of virtualServers) {
    known.virtualServers.set(virtualServerKey(virtualServer), { virtualServer, realServers });
  }
}

function isServiceable(address: IpAddress): boolean {
  return !isLoopback(address) && !isIpv6LinkLocal(address);
}
