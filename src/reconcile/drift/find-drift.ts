/**
 * What a third party changed: where the kernel was observed to differ from the cache, and a sync has to change it back.
 * That leaves out by itself what leads to where we want to go: a write of ours whose reply was lost, a drain, foreign
 * virtual servers. Pure.
 */
import type { IpFamily } from "../../base/ip.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import { dummyLinkName } from "../../state/dummy-link.ts";
import type { ObservedIpSet } from "../../state/ip-set.ts";
import { realServerKey } from "../../state/real-server.ts";
import type { Change } from "../change.ts";
import type { CachedRules, CachedVirtualServer } from "../observed/cached-state.ts";
import type { Differences } from "../observed/difference.ts";
import { subjectOf } from "../subject.ts";
import { absent, type Drift, present } from "./drift.ts";
import { driftOfRules } from "./drift-of-rules.ts";
import { driftOfServer } from "./drift-of-servers.ts";
import type { ManualWeightsView } from "./manual-weights.ts";

export interface DriftInput {
  readonly differences: Differences;
  /** Planned, those that wait included. */
  readonly changes: readonly Change[];
  readonly desired: Pick<DesiredView, "virtualServer">;
  /** By virtual-server key: what becomes of a third party's is no drift. */
  readonly isOwned: (key: string) => boolean;
  readonly manualWeights: ManualWeightsView;
  /** As the planned rules will be printed. */
  readonly wantedRules: (family: IpFamily) => CachedRules | undefined;
}

export function findDrift(input: DriftInput): readonly Drift[] {
  const { differences, changes } = input;
  if (differences.isEmpty) return [];
  const sets = driftOfSets(differences);
  const changedSets = new Set(sets.map(({ subject }) => subject.setName));
  // Into a list of its own, not a call: there may be more than a call takes arguments.
  return [
    ...driftOfLink(differences),
    ...sets,
    ...changes.flatMap((change) => driftOfChange(change, differences, changedSets)),
    ...driftOfServers(input),
    ...driftOfAllRules(input),
  ];
}

/** With the link go its addresses: one thing. */
function driftOfLink({ lostLinkAddressCount: count }: Differences): readonly Drift[] {
  if (count === undefined) return [];
  const subject = { type: "link", link: dummyLinkName } as const;
  return [{ kind: "link", subject, before: `${count} addresses`, after: absent }];
}

type SetDrift = Drift & { readonly subject: { readonly type: "set"; readonly setName: string } };

/** A set that is gone or recreated is one thing, whatever was in it. */
function driftOfSets({ sets }: Differences): readonly SetDrift[] {
  return [...sets].flatMap(([setName, { before, after }]): readonly SetDrift[] => {
    const [was, is] = [headerText(before), headerText(after)];
    if (before === undefined || was === is) return [];
    return [{ kind: "set", subject: { type: "set", setName }, before: was, after: is }];
  });
}

/** A member, address or sysctl that has to be put back or taken out. */
function driftOfChange(
  change: Change,
  differences: Differences,
  changedSets: ReadonlySet<string>,
): readonly Drift[] {
  const subject = subjectOf(change);
  switch (change.kind) {
    case "address-add":
    case "address-remove": {
      const isAdd = change.kind === "address-add";
      if (differences.lostLinkAddressCount !== undefined) return [];
      if (differences.addresses.get(change.address) !== isAdd) return [];
      return [{ kind: "address", subject, ...taken(isAdd) }];
    }
    case "entry-add":
    case "entry-remove": {
      const isAdd = change.kind === "entry-add";
      const wasThere = differences.entries.get(change.set.name)?.get(change.entry);
      if (wasThere !== isAdd || changedSets.has(change.set.name)) return [];
      return [{ kind: "entry", subject, ...taken(isAdd) }];
    }
    case "sysctl-write": {
      const difference = differences.sysctls.get(change.path);
      if (difference === undefined) return [];
      const { before = absent, after = absent } = difference;
      return [{ kind: "sysctl", subject, before, after }];
    }
    default:
      return [];
  }
}

/** What we have to add, a third party took away. */
function taken(isAdd: boolean): Pick<Drift, "before" | "after"> {
  return isAdd ? { before: present, after: absent } : { before: absent, after: present };
}

function driftOfServers(input: DriftInput): readonly Drift[] {
  const { differences, changes, isOwned } = input;
  if (differences.servers.size === 0) return [];
  const changed = new Set<string>();
  for (const change of changes) {
    const subject = subjectOf(change);
    if (subject.type === "virtual-server" || subject.type === "real-server") {
      changed.add(subject.virtualServer);
    }
  }
  return [...differences.servers]
    .filter(([key]) => changed.has(key) && isOwned(key))
    .flatMap(([key, { before, after }]) =>
      driftOfServer({ key, before, after, wanted: withKeptWeights(key, after, input) }),
    );
}

/** What is wanted, with the weights that a third party set and that stay. */
function withKeptWeights(
  key: string,
  found: CachedVirtualServer | undefined,
  { desired, manualWeights }: DriftInput,
): CachedVirtualServer | undefined {
  const wanted = desired.virtualServer(key);
  if (wanted === undefined || found === undefined) return wanted;
  const present = new Map(found.realServers.map((one) => [realServerKey(one), one]));
  const realServers = wanted.realServers.map((planned) => {
    const one = present.get(realServerKey(planned));
    return one !== undefined && manualWeights.isKept(key, planned, one) ? one : planned;
  });
  return { virtualServer: wanted.virtualServer, realServers };
}

function driftOfAllRules({ differences, wantedRules }: DriftInput): readonly Drift[] {
  return [...differences.rules].flatMap(([family, { before, after }]) => {
    const wanted = wantedRules(family);
    return wanted === undefined ? [] : driftOfRules(family, { before, after, wanted });
  });
}

function headerText(header: ObservedIpSet | undefined): string {
  if (header === undefined) return absent;
  const { type, family, maxElements, hasOptions } = header;
  const isHash = type.startsWith("hash:");
  const words = [type, isHash ? family : "", `maxelem ${maxElements}`, hasOptions ? "options" : ""];
  return words.filter(Boolean).join(" ");
}
