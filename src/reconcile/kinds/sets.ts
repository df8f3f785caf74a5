/**
 * Creates our sets, and replaces those whose parameters differ. Rules refer to the sets at all times, so a set must
 * never lack its entries.
 *
 * | the set in the kernel | action |
 * |---|---|
 * | absent | it is created |
 * | our type and family, different capacity or options | a temporary set is filled and swapped with it |
 * | different type or family, not referenced by rules | it is destroyed and created |
 * | different type or family, referenced by rules | it is reported and not changed |
 */
import { ipFamilies } from "../../base/ip.ts";
import type { IpSets } from "../../kernel/kernel.ts";
import { allSetsFor, capacityFor, setFor, temporaryNameOf } from "../../plan/sets.ts";
import { tunnelChain } from "../../plan/tunnel-rules.ts";
import { type IpSet, isSwappable, type ObservedIpSet, sameIpSet } from "../../state/ip-set.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { Change, SetSwap } from "../change.ts";
import { absent } from "../drift.ts";
import type { CachedState } from "../observed/cached-state.ts";
import type { Differences } from "../observed/difference.ts";
import type { PlanSteps } from "../plan-steps.ts";
import type { SyncGoal } from "../sync-goal.ts";
import { alone, changesPerBatch, type DriftTexts, type Kinds } from "./kind.ts";

/** All sets of both families, by name. */
export const ourSets: ReadonlyMap<string, IpSet> = new Map(
  ipFamilies.flatMap(allSetsFor).map((set) => [set.name, set]),
);

export const setKinds: Kinds<"set-create" | "set-swap" | "set-destroy"> = {
  "set-create": {
    part: "sets",
    subject: ({ set: { name } }) => ({ type: "set", setName: name }),
    send: alone(({ set }, { ipSets }) => ipSets.create(set)),
    fold({ set }, { cached }) {
      cached.sets.set(set.name, { ...set, references: 0, elementCount: 0 });
      cached.setEntries.set(set.name, new Set());
    },
    detail: ({ set: { type, maxElements } }) => `${type}, maxelem ${maxElements}`,
    drift: ({ set: { name } }, { sets }) => driftOf(sets.get(name)),
  },
  "set-swap": {
    part: "sets",
    subject: ({ set: { name } }) => ({ type: "set", setName: name }),
    send: alone((change, { ipSets }) => replace(change, ipSets)),
    fold({ set, entries }, { cached }) {
      const references = cached.sets.get(set.name)?.references ?? 0;
      cached.sets.set(set.name, { ...set, references, elementCount: entries.size });
    },
    detail: ({ set: { maxElements } }) => `maxelem ${maxElements}`,
    drift: ({ set: { name } }, { sets }) => driftOf(sets.get(name)),
  },
  "set-destroy": {
    part: "sets",
    subject: ({ setName }) => ({ type: "set", setName }),
    send: alone(({ setName, rejection }, { ipSets }) => {
      if (rejection !== undefined) throw rejection;
      return ipSets.destroy(setName);
    }),
    detail: ({ rejection }) => (rejection === undefined ? "" : "kept because rules refer to it"),
    fold({ setName }, { cached }) {
      cached.sets.delete(setName);
      cached.setEntries.delete(setName);
      cached.temporarySets.delete(setName);
    },
    drift: ({ setName }, { sets }) => driftOf(sets.get(setName)),
  },
};

/** Replaces a set. Until the swap, rules use the old set with all its entries. */
async function replace({ set, entries }: SetSwap, ipSets: IpSets): Promise<void> {
  const temporary = { ...set, name: temporaryNameOf(set.name) };
  await ipSets.create(temporary);
  const error = await fill(temporary, [...entries], ipSets);
  if (error === undefined) await ipSets.swap(set.name, temporary.name);
  await ipSets.destroy(temporary.name);
  if (error !== undefined) throw error;
}

/** Returns the first error. The event loop runs between batches. */
async function fill(
  set: IpSet,
  entries: readonly SetEntry[],
  ipSets: IpSets,
): Promise<Error | undefined> {
  for (let first = 0; first < entries.length; first += changesPerBatch) {
    const batch = entries.slice(first, first + changesPerBatch);
    const [failed] = await ipSets.apply(batch.map((entry) => ({ kind: "entry-add", set, entry })));
    if (failed !== undefined) return failed.error;
  }
  return undefined;
}

/** If a set was destroyed or recreated, its entries are part of the same drift. */
function driftOf(difference: ReturnType<Differences["sets"]["get"]>): DriftTexts {
  const [before, after] = [headerText(difference?.before), headerText(difference?.after)];
  if (difference?.before === undefined || before === after) return [];
  return [{ kind: "set", before, after }];
}

export function isSetDrift({ sets }: Differences, setName: string): boolean {
  return driftOf(sets.get(setName)).length > 0;
}

function headerText(header: ObservedIpSet | undefined): string {
  if (header === undefined) return absent;
  const { type, family, maxElements, hasOptions } = header;
  const isHash = type.startsWith("hash:");
  const capacity = maxElements === undefined ? "" : `maxelem ${maxElements}`;
  const words = [type, isHash ? family : "", capacity, hasOptions ? "options" : ""];
  return words.filter(Boolean).join(" ");
}

export interface SetsInput {
  readonly cached: CachedState;
  /** The planned rules of the families whose sets are compared. */
  readonly rules: SyncGoal["rules"];
  /** Number of entries that the sync will add, by set name. */
  readonly addedCounts: ReadonlyMap<string, number>;
  /** Whether the set's capacity may shrink to the capacity that kube-proxy would use. */
  mayShrink(setName: string): boolean;
}

/**
 * Whether a set must exist. All sets must exist, except the one that only the rules of tunnels use. `unknown`: rules of
 * an earlier run, which are removed later, may still use the set.
 */
export function useOf(
  { name, family }: IpSet,
  rules: SyncGoal["rules"],
): "needed" | "unneeded" | "unknown" {
  if (name !== setFor("tunnelNodes", family).name) return "needed";
  const ofTunnels = rules.get(family)?.chains.filter((chain) => chain.name === tunnelChain) ?? [];
  if (ofTunnels.length === 0) return "unknown";
  const isUsed = ofTunnels.some(({ rules: all }) =>
    all.some(({ matches }) => matches.some((match) => match.kind === "set" && match.name === name)),
  );
  return isUsed ? "needed" : "unneeded";
}

/** Creates all needed sets of the families whose rules are planned, even empty ones, because rules refer to them. */
export function diffSets(input: SetsInput, { sets, formerSets }: PlanSteps): void {
  const { cached } = input;
  for (const setName of cached.temporarySets) {
    // This temporary set remains from an interrupted replacement.
    sets.push({ kind: "set-destroy", setName, reason: "leftover" });
  }
  for (const plain of [...input.rules.keys()].flatMap(allSetsFor)) {
    const present = cached.sets.get(plain.name);
    const use = useOf(plain, input.rules);
    if (use !== "needed") {
      if (present !== undefined && use === "unneeded")
        formerSets.push({ kind: "set-destroy", setName: plain.name, reason: "unwanted" });
      continue;
    }
    const set = withCapacity(plain, present, input);
    if (present === undefined) sets.push({ kind: "set-create", set, reason: "missing" });
    else if (sameIpSet(set, present)) continue;
    else if (isSwappable(set, present)) {
      const entries = cached.setEntries.get(set.name) ?? new Set();
      sets.push({ kind: "set-swap", set, entries, reason: "resize" });
    } else {
      const destruction = {
        kind: "set-destroy",
        setName: set.name,
        reason: "incompatible-set",
      } as const;
      if ((present.references ?? 0) > 0) {
        sets.push({ ...destruction, rejection: new IncompatibleSetError(set, present) });
      } else sets.push(destruction, { kind: "set-create", set, reason: "incompatible-set" });
    }
  }
}

/**
 * Destroys all sets. Only the attempt shows whether third-party rules refer to a set, because our own rules refer to it
 * too.
 */
export function destroyAll({ sets }: CachedState): readonly Change[] {
  return [...ourSets.keys()]
    .filter((name) => sets.has(name))
    .map((setName): Change => ({ kind: "set-destroy", setName, reason: "unwanted" }));
}

/**
 * The set with the capacity that it needs. New entries are added before old ones are removed, so it must have room for
 * both. A set grows whenever necessary, but shrinks to kube-proxy's capacity only in a full sync and after a
 * verification period, so that a count near the limit does not cause a resize in every sync.
 */
function withCapacity(
  set: IpSet,
  present: ObservedIpSet | undefined,
  { cached, addedCounts, mayShrink }: SetsInput,
): IpSet {
  if (set.type === "bitmap:port") return set;
  const count = (cached.setEntries.get(set.name)?.size ?? 0) + (addedCounts.get(set.name) ?? 0);
  const maxElements = present?.maxElements;
  const keeps = maxElements !== undefined && count <= maxElements && !mayShrink(set.name);
  return { ...set, maxElements: keeps ? maxElements : capacityFor(count) };
}

/** A set of a different type that cannot be replaced. */
class IncompatibleSetError extends Error {
  override readonly name = "IncompatibleSetError";
  readonly code = "incompatible-set";

  constructor(wanted: IpSet, present: ObservedIpSet) {
    super(
      `Cannot replace set ${wanted.name} (${present.type}) with a ${wanted.type} set: rules refer to it; remove these rules ` +
        "(kube-ipvs --cleanup removes its own)",
    );
  }
}
