/** The entries of our sets. */

import { parseIpAddress } from "../../base/ip.ts";
import type { EntryChange } from "../../kernel/kernel.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import { setFor } from "../../plan/sets.ts";
import type { IpSet } from "../../state/ip-set.ts";
import { addressOf, addressPortEntry, type SetEntry } from "../../state/set-entry.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";
import { added, lost } from "../drift.ts";
import { isLimitSet, serverOfEntry } from "../limits.ts";
import type { CachedState } from "../observed/cached-state.ts";
import type { PlanSteps } from "../plan-steps.ts";
import type { Scope } from "../scope.ts";
import type { SyncGoal } from "../sync-goal.ts";
import { comparedPerPiece, union } from "./compared-keys.ts";
import type { Kind, Kinds } from "./kind.ts";
import { isSetDrift, ourSets, useOf } from "./sets.ts";

const entryKind: Kind<EntryChange> = {
  part: "sets",
  subject: ({ set: { name: setName }, entry }) => ({ type: "entry", setName, entry }),
  // Restricting entries have separate requests, because their dependents wait for the outcome of these requests.
  requestKey: ({ set: { name } }) => (isLimitSet(name) ? "limits" : "entries"),
  send: (changes, { ipSets }) => ipSets.apply(changes),
  fold({ kind, set: { name }, entry }, { cached: { setEntries } }) {
    if (kind === "entry-add") setEntries.get(name)?.add(entry);
    else setEntries.get(name)?.delete(entry);
  },
  drift({ kind, set: { name }, entry }, differences) {
    const wasThere = differences.entries.get(name)?.get(entry);
    if (wasThere !== (kind === "entry-add") || isSetDrift(differences, name)) return [];
    return [{ kind: "entry", ...(wasThere ? lost : added) }];
  },
};

export const entryKinds: Kinds<"entry-add" | "entry-remove"> = {
  "entry-add": entryKind,
  "entry-remove": entryKind,
};

interface EntriesInput {
  readonly desired: DesiredView;
  readonly cached: CachedState;
  readonly scope: Scope;
  readonly rules: SyncGoal["rules"];
}

export function* diffEntries(input: EntriesInput, plan: PlanSteps): Generator<void, void> {
  const { desired, cached } = input;
  let compared = 0;
  for (const set of ourSets.values()) {
    const steps = stepsOf(set, desired);
    for (const entry of comparedEntries(set, input)) {
      compared += 1;
      if (compared % comparedPerPiece === 0) yield;
      const isWanted = desired.hasEntry(set.name, entry);
      if (isWanted === cached.hasEntry(set.name, entry)) continue;
      if (isWanted) {
        const [comment] = desired.servicesOfEntry(set.name, entry);
        const addition = { kind: "entry-add", set, entry, comment, reason: "missing" } as const;
        plan[steps.toAdd(entry)].push(addition);
        continue;
      }
      const step = steps.toRemove(entry);
      const reason = step === "limits" ? "tightens" : "unwanted";
      plan[step].push({ kind: "entry-remove", set, entry, reason });
    }
  }
}

/** The entries to compare. If the set does not exist, these are all its entries, regardless of scope. */
function comparedEntries(
  set: IpSet,
  { desired, cached, scope, rules }: EntriesInput,
): Iterable<SetEntry> {
  const { name } = set;
  const present = cached.setEntries.get(name);
  const isMissing = present === undefined && rules.size > 0 && useOf(set, rules) === "needed";
  if (scope.setEntries === undefined || isMissing) {
    const isWanted = (entry: SetEntry): boolean => desired.hasEntry(name, entry);
    return union(desired.entries(name), present ?? [], isWanted);
  }
  return scope.setEntries.get(name) ?? [];
}

/** The steps in which one set's entries are changed. */
interface Steps {
  toAdd(entry: SetEntry): "limits" | "entries" | "limitedEntries";
  toRemove(entry: SetEntry): "limits" | "formerEntries" | "formerLimits";
}

/** The virtual servers of a guarded address. */
function serversOf(entry: SetEntry, desired: DesiredView): readonly VirtualServerId[] {
  const address = parseIpAddress(addressOf(entry));
  const keys = address === undefined ? [] : desired.serversOfAddress(address);
  return keys.flatMap((key) => desired.virtualServer(key)?.virtualServer ?? []);
}

const plain: Steps = { toAdd: () => "entries", toRemove: () => "formerEntries" };

function stepsOf({ name, family }: IpSet, desired: DesiredView): Steps {
  const { name: firewall } = setFor("loadBalancerFirewall", family);
  const isLimited = (entry: SetEntry): boolean => desired.hasEntry(firewall, entry);
  if (name === setFor("ipvsIps", family).name) {
    // Until the other entries of a bound address exist, the address guard rejects connections to it, for example when
    // rules move between iptables and nf_tables. Entries for load balancers with source ranges are added last.
    const hasLimited = (entry: SetEntry): boolean =>
      serversOf(entry, desired).some(({ address, protocol, port }) =>
        isLimited(addressPortEntry(address, protocol, port)),
      );
    return { ...plain, toAdd: (entry) => (hasLimited(entry) ? "limitedEntries" : "entries") };
  }
  if (name === setFor("loadBalancer", family).name) {
    return { ...plain, toAdd: (entry) => (isLimited(entry) ? "limitedEntries" : "entries") };
  }
  if (!isLimitSet(name)) return plain;
  const isStillLimited = (entry: SetEntry): boolean => {
    const server = serverOfEntry(entry);
    if (server === undefined) return false;
    return desired.hasEntry(
      firewall,
      addressPortEntry(server.address, server.protocol, server.port),
    );
  };
  return {
    toAdd: () => "limits",
    toRemove: (entry) => (isStillLimited(entry) ? "limits" : "formerLimits"),
  };
}
