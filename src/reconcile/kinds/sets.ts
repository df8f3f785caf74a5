/**
 * The sets: created, and replaced if their parameters differ. Rules refer to sets all the time and must find their entries in
 * them at every moment.
 *
 * | the set in the kernel | what becomes of it |
 * |---|---|
 * | absent | created |
 * | our type and family, other capacity or options | a temporary set is filled and swapped with it |
 * | another type or family, no rule refers to it | destroyed and created |
 * | another type or family, rules refer to it | left as it is, and reported |
 */
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { IpSets } from "../../kernel/kernel.ts";
import { capacityFor, setsFor, temporaryNameOf } from "../../plan/sets.ts";
import { type IpSet, isSwappable, type ObservedIpSet, sameIpSet } from "../../state/ip-set.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { Change, SetSwap } from "../change.ts";
import { absent } from "../drift.ts";
import type { CachedState } from "../observed/cached-state.ts";
import type { Differences } from "../observed/difference.ts";
import type { PlanSteps } from "../plan-steps.ts";
import { alone, changesPerBatch, type DriftTexts, type Kinds } from "./kind.ts";

/** All sets of both families, by name. */
export const ourSets: ReadonlyMap<string, IpSet> = new Map(
  ipFamilies.flatMap(setsFor).map((set) => [set.name, set]),
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
    detail: ({ rejection }) => (rejection === undefined ? "" : "stays: rules refer to it"),
    fold({ setName }, { cached }) {
      cached.sets.delete(setName);
      cached.setEntries.delete(setName);
      cached.temporarySets.delete(setName);
    },
    drift: ({ setName }, { sets }) => driftOf(sets.get(setName)),
  },
};

/** Rules see the old set with all entries until they see the new one. */
async function replace({ set, entries }: SetSwap, ipSets: IpSets): Promise<void> {
  const temporary = { ...set, name: temporaryNameOf(set.name) };
  await ipSets.create(temporary);
  const error = await fill(temporary, [...entries], ipSets);
  if (error === undefined) await ipSets.swap(set.name, temporary.name);
  await ipSets.destroy(temporary.name);
  if (error !== undefined) throw error;
}

/** Gives the first error. Between two batches the event loop has its turn. */
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

/** A set that is gone or recreated is one thing, whatever was in it. */
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
  const words = [type, isHash ? family : "", `maxelem ${maxElements}`, hasOptions ? "options" : ""];
  return words.filter(Boolean).join(" ");
}

export interface SetsInput {
  readonly cached: CachedState;
  readonly families: Iterable<IpFamily>;
  /** Entries that the sync is going to add, by set name. */
  readonly addedCounts: ReadonlyMap<string, number>;
  /** Its capacity may shrink to what kube-proxy would have made. */
  mayShrink(setName: string): boolean;
}

/** Sets are made for the families whose rules are planned, used or not: rules refer to them by name. */
export function diffSets(input: SetsInput, { sets }: PlanSteps): void {
  const { cached } = input;
  for (const setName of cached.temporarySets) {
    // What a replacement that was cut short left behind.
    sets.push({ kind: "set-destroy", setName, reason: "leftover" });
  }
  for (const plain of [...input.families].flatMap(setsFor)) {
    const present = cached.sets.get(plain.name);
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
      if (present.references > 0) {
        sets.push({ ...destruction, rejection: new IncompatibleSetError(set, present) });
      } else sets.push(destruction, { kind: "set-create", set, reason: "incompatible-set" });
    }
  }
}

/** Whether a third-party rule still refers to one is seen when it is destroyed: ours do until they are gone. */
export function destroyAll({ sets }: CachedState): readonly Change[] {
  return [...ourSets.keys()]
    .filter((name) => sets.has(name))
    .map((setName): Change => ({ kind: "set-destroy", setName, reason: "unwanted" }));
}

/**
 * New entries come before old ones go, so the set must hold both. It grows whenever it must, and shrinks to kube-proxy's
 * capacity only in a full sync and after a period of the verification: a count around the limit shall not move it with
 * each sync.
 */
function withCapacity(
  set: IpSet,
  present: ObservedIpSet | undefined,
  { cached, addedCounts, mayShrink }: SetsInput,
): IpSet {
  if (set.type === "bitmap:port") return set;
  const count = (cached.setEntries.get(set.name)?.size ?? 0) + (addedCounts.get(set.name) ?? 0);
  const fits = present !== undefined && count <= present.maxElements;
  const keeps = fits && !mayShrink(set.name);
  return { ...set, maxElements: keeps ? present.maxElements : capacityFor(count) };
}

/** A set of another type that cannot be replaced. */
class IncompatibleSetError extends Error {
  override readonly name = "IncompatibleSetError";
  readonly code = "incompatible-set";

  constructor(wanted: IpSet, present: ObservedIpSet) {
    super(
      `Cannot replace set ${wanted.name} (${present.type}) by one of ${wanted.type}: rules refer to it; remove those rules: ` +
        "kube-ipvs --cleanup removes its own",
    );
  }
}
