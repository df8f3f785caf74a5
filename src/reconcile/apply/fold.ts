/** What the kernel holds once changes are done: writes their outcome into the cache. Does no I/O. */
import type { Iptables } from "../../kernel/kernel.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import { isTemporaryName } from "../../plan/sets.ts";
import type { IpSet } from "../../state/ip-set.ts";
import { type RealServer, realServerKey, sameRealServers } from "../../state/real-server.ts";
import { chainKey, type Rule } from "../../state/rule.ts";
import { sameVirtualServer } from "../../state/virtual-server.ts";
import type { Change, FamilyRuleChange, RealServerChange } from "../change.ts";
import { type CachedState, type CachedVirtualServer, noRules } from "../observed/cached-state.ts";

interface FoldTools {
  readonly cached: CachedState;
  /** Lists that become as desired are the desired ones: in memory once, and free to compare. */
  readonly desired: Pick<DesiredView, "virtualServer">;
  readonly kernel: { readonly iptables: Pick<Iptables, "render"> };
}

/** Folds changes that were done, in their order. */
export function foldDone(done: readonly Change[], tools: FoldTools): void {
  for (let first = 0; first < done.length; ) {
    const change = done[first] as Change;
    let end = first + 1;
    if (isRealServerChange(change)) {
      // Neighbors of one virtual server together: nearly always these are all that it has.
      while (end < done.length && isOfServer(done[end] as Change, change.key)) end += 1;
      foldRealServers(change.key, done.slice(first, end) as RealServerChange[], tools);
    } else foldOne(change, tools);
    first = end;
  }
}

function isOfServer(change: Change, key: string): boolean {
  return isRealServerChange(change) && change.key === key;
}

function isRealServerChange(change: Change): change is Change & RealServerChange {
  return change.kind.startsWith("real-server-");
}

function foldOne(change: Change, tools: FoldTools): void {
  const { cached } = tools;
  switch (change.kind) {
    case "sysctl-write":
      cached.sysctls.set(change.path, change.after);
      break;
    case "link-create":
    case "link-remove":
      cached.hasLink = change.kind === "link-create";
      break;
    case "set-create":
      foldCreatedSet(change.set, cached);
      break;
    case "set-swap":
      foldSwap(change.set, cached);
      break;
    case "set-destroy":
      cached.sets.delete(change.setName);
      cached.setEntries.delete(change.setName);
      cached.temporarySets.delete(change.setName);
      break;
    case "entry-add":
      cached.setEntries.get(change.set.name)?.add(change.entry);
      break;
    case "entry-remove":
      cached.setEntries.get(change.set.name)?.delete(change.entry);
      break;
    case "chain-write":
    case "chain-remove":
    case "jump-insert":
    case "jump-remove":
      foldRule(change, tools);
      break;
    case "virtual-server-create":
      share(change.key, { virtualServer: change.after, realServers: [] }, tools);
      break;
    case "virtual-server-update": {
      const realServers = cached.virtualServers.get(change.key)?.realServers ?? [];
      share(change.key, { virtualServer: change.after, realServers }, tools);
      break;
    }
    case "virtual-server-remove":
      cached.virtualServers.delete(change.key);
      break;
    case "address-add":
      cached.addresses.add(change.address);
      break;
    case "address-remove":
      cached.addresses.delete(change.address);
      break;
    default:
      break;
  }
}

function foldCreatedSet(set: IpSet, cached: CachedState): void {
  if (isTemporaryName(set.name)) {
    cached.temporarySets.add(set.name);
    return;
  }
  cached.sets.set(set.name, { ...set, references: 0, elementCount: 0 });
  cached.setEntries.set(set.name, new Set());
}

/** The entries are the same as before. */
function foldSwap(set: IpSet, cached: CachedState): void {
  const references = cached.sets.get(set.name)?.references ?? 0;
  const elementCount = cached.setEntries.get(set.name)?.size ?? 0;
  cached.sets.set(set.name, { ...set, references, elementCount });
}

function foldRule(change: FamilyRuleChange, { cached, kernel }: FoldTools): void {
  const { family } = change;
  const render = (rule: Rule): string => kernel.iptables.render(family, rule);
  const before = cached.rules.get(family) ?? noRules;
  const chains = new Map(before.chains);
  const jumps = new Map(before.jumps);
  switch (change.kind) {
    case "chain-write": {
      const { table, name, rules } = change.chain;
      chains.set(chainKey(table, name), rules.map(render));
      break;
    }
    case "chain-remove":
      chains.delete(chainKey(change.table, change.chainName));
      break;
    case "jump-insert":
    case "jump-remove": {
      const place = chainKey(change.jump.table, change.jump.from);
      const text = render(change.jump.rule);
      const present = jumps.get(place) ?? [];
      const at = present.indexOf(text);
      if (change.kind === "jump-insert") jumps.set(place, [text, ...present]);
      else if (at >= 0) jumps.set(place, present.toSpliced(at, 1));
      break;
    }
  }
  cached.rules.set(family, { chains, jumps });
}

function foldRealServers(
  key: string,
  changes: readonly RealServerChange[],
  tools: FoldTools,
): void {
  const server = tools.cached.virtualServers.get(key);
  if (server === undefined) return;
  const planned = tools.desired.virtualServer(key);
  if (planned !== undefined && completes(changes, server, planned)) {
    tools.cached.virtualServers.set(key, planned);
    return;
  }
  const byKey = new Map(server.realServers.map((one) => [realServerKey(one), one]));
  for (const change of changes) {
    if (change.kind === "real-server-remove") byKey.delete(realServerKey(change.before));
    else byKey.set(realServerKey(change.after), change.after);
  }
  const realServers: readonly RealServer[] = [...byKey.values()];
  share(key, { virtualServer: server.virtualServer, realServers }, tools);
}

/** The changes make exactly what is planned, where nothing was: nearly all of a first sync. */
function completes(
  changes: readonly RealServerChange[],
  { virtualServer, realServers }: CachedVirtualServer,
  planned: CachedVirtualServer,
): boolean {
  return (
    realServers.length === 0 &&
    virtualServer === planned.virtualServer &&
    changes.length === planned.realServers.length &&
    changes.every((change, index) => {
      return change.kind === "real-server-create" && change.after === planned.realServers[index];
    })
  );
}

/** Keeps the desired value in the place of an equal one. */
function share(key: string, server: CachedVirtualServer, { cached, desired }: FoldTools): void {
  const planned = desired.virtualServer(key);
  const isAsPlanned =
    planned !== undefined &&
    sameVirtualServer(planned.virtualServer, server.virtualServer) &&
    sameRealServers(planned.realServers, server.realServers);
  cached.virtualServers.set(key, isAsPlanned ? planned : server);
}
