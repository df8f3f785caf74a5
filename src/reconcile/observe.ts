import {
  type IpAddress,
  type IpFamily,
  ipFamilies,
  isIpv6LinkLocal,
  isLoopback,
} from "../base/ip.ts";
import type { Iptables, Kernel } from "../kernel/kernel.ts";
import { setsFor } from "../plan/sets.ts";
import type { RuleSet } from "../state/rule.ts";
import { virtualServerKey } from "../state/virtual-server.ts";
import { knownRulesOf } from "./diff-rules.ts";
import { type KnownRules, KnownState } from "./known-state.ts";

/** Reads everything of ours in the kernel. Rules are read only for the families in `plannedRules`. */
export async function observe(
  kernel: Kernel,
  plannedRules: ReadonlyMap<IpFamily, RuleSet>,
): Promise<KnownState> {
  const known = new KnownState();
  await observeLink(kernel, known);
  await observeSets(kernel, known);
  await observeServers(kernel, known);
  for (const [family, planned] of plannedRules) {
    known.rules.set(family, await observeRules(kernel.iptables, family, planned));
  }
  return known;
}

/** The addresses of this node, neither loopback nor IPv6 link-local. */
export interface ObservedAddresses {
  /** On kube-ipvs0; absent where there is no such link. */
  readonly bound: ReadonlySet<IpAddress> | undefined;
  /** On all other links, up or down. */
  readonly ofNode: ReadonlySet<IpAddress>;
}

export async function observeAddresses(kernel: Kernel): Promise<ObservedAddresses> {
  const link = await kernel.link.find();
  const bound = new Set<IpAddress>();
  const ofNode = new Set<IpAddress>();
  for (const { address, linkIndex } of await kernel.link.listAddresses()) {
    if (isServiceable(address)) (linkIndex === link?.index ? bound : ofNode).add(address);
  }
  return { bound: link === undefined ? undefined : bound, ofNode };
}

export async function observeRules(
  iptables: Iptables,
  family: IpFamily,
  planned: RuleSet,
): Promise<KnownRules> {
  const observed = await iptables.observe(family);
  return knownRulesOf(observed, planned, (rule) => iptables.render(family, rule));
}

async function observeLink(kernel: Kernel, known: KnownState): Promise<void> {
  const { bound } = await observeAddresses(kernel);
  known.hasLink = bound !== undefined;
  for (const address of bound ?? []) known.addresses.add(address);
}

async function observeSets(kernel: Kernel, known: KnownState): Promise<void> {
  const sets = new Map(ipFamilies.flatMap(setsFor).map((set) => [set.name, set]));
  for (const { name, elementCount } of await kernel.ipSets.listSets()) {
    const set = sets.get(name);
    if (set === undefined) continue;
    // An empty set is not worth a request, and bitmap sets do not always count.
    const isEmpty = elementCount === 0 && set.type !== "bitmap:port";
    known.setEntries.set(name, new Set(isEmpty ? [] : await kernel.ipSets.listEntries(set)));
  }
}

async function observeServers(kernel: Kernel, known: KnownState): Promise<void> {
  const { virtualServers } = await kernel.ipvs.observe();
  for (const { virtualServer, realServers } of virtualServers) {
    known.virtualServers.set(virtualServerKey(virtualServer), { virtualServer, realServers });
  }
}

function isServiceable(address: IpAddress): boolean {
  return !isLoopback(address) && !isIpv6LinkLocal(address);
}
