/**
 * The sets: created, replaced where they have other parameters than they should, and tidied up. Rules refer to sets all
 * the time and must find their entries in them at every moment. Pure.
 *
 * | the set in the kernel | what becomes of it |
 * |---|---|
 * | absent | created |
 * | our type and family, other capacity or options | a temporary set is filled and swapped with it |
 * | another type or family, no rule refers to it | destroyed and created |
 * | another type or family, our rules refer to it | our rules are led to a filled temporary set for as long as it takes |
 * | another type or family, third-party rules refer to it | left as it is, and reported |
 */
import type { IpFamily } from "../../base/ip.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import { capacityFor, setsFor, temporaryNameOf } from "../../plan/sets.ts";
import { type IpSet, isSwappable, type ObservedIpSet, sameIpSet } from "../../state/ip-set.ts";
import type { Match, RuleSet } from "../../state/rule.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { RefusedChange } from "../apply/outcome.ts";
import type { Change } from "../change.ts";
import type { CachedState } from "../observed/cached-state.ts";

export interface SetsInput {
  readonly cached: CachedState;
  readonly families: Iterable<IpFamily>;
  /** Entries that the sync is going to add, by set name. */
  readonly addedCounts: ReadonlyMap<string, number>;
  /** Its capacity may shrink to what kube-proxy would have made. */
  mayShrink(setName: string): boolean;
  /** The kernel refused its replacement, and it is not due again. */
  isRefused(setName: string): boolean;
}

export interface SetChanges {
  /** Before the entries. */
  readonly changes: readonly Change[];
  /** Sets of another type to which our own rules refer: redirected, then recreated. */
  readonly redirected: readonly IpSet[];
  /** Sets that cannot be replaced: third-party rules refer to them. */
  readonly impossible: readonly RefusedChange[];
}

/** Sets are made for the families whose rules are planned, used or not: rules refer to them by name. */
export function diffSets(input: SetsInput): SetChanges {
  const { cached } = input;
  const changes: Change[] = [];
  const redirected: IpSet[] = [];
  const impossible: RefusedChange[] = [];
  for (const set of [...input.families].flatMap(setsFor)) {
    const present = cached.sets.get(set.name);
    const wanted = withCapacity(set, present, input);
    if (present !== undefined && sameIpSet(wanted, present)) continue;
    if (present === undefined) {
      changes.push({ kind: "set-create", set: wanted, reason: "missing" });
    } else if (input.isRefused(set.name)) {
      if (!isSwappable(wanted, present)) impossible.push(replacement(wanted, present));
    } else if (isSwappable(wanted, present)) {
      // Not spread: there may be more than a call takes arguments.
      for (const change of swap(wanted, cached)) changes.push(change);
    } else if (present.references === 0) {
      changes.push(...recreate(wanted));
    } else if (isUsedByThirdParty(cached, wanted, present)) {
      impossible.push(replacement(wanted, present));
    } else {
      redirected.push(wanted);
    }
  }
  return { changes, redirected, impossible };
}

/** What fills the stand-ins, then recreates the sets while `redirectRules` bypass them. */
export function redirectChanges(
  sets: readonly IpSet[],
  {
    cached,
    desired,
  }: Pick<SetsInput, "cached"> & { readonly desired: Pick<DesiredView, "entries"> },
  redirectRules: readonly Change[],
): readonly Change[] {
  return [
    ...sets.flatMap((set) => temporary(set, desired.entries(set.name), cached)),
    ...redirectRules,
    ...sets.flatMap(recreate),
  ];
}

/** Destroys what earlier migrations left behind, and the stand-ins of `redirected`. */
export function destroyTemporary(
  leftovers: Iterable<string>,
  redirected: readonly IpSet[],
): readonly Change[] {
  const names = new Set([...leftovers, ...redirected.map(({ name }) => temporaryNameOf(name))]);
  return [...names].map(
    (setName): Change => ({ kind: "set-destroy", setName, reason: "leftover" }),
  );
}

/** The planned rules with the temporary set in the place of each of `sets`. */
export function withTemporaryNames(planned: RuleSet, sets: readonly IpSet[]): RuleSet {
  const names = new Set(sets.map(({ name }) => name));
  const renamed = (match: Match): Match =>
    match.kind === "set" && names.has(match.name)
      ? { ...match, name: temporaryNameOf(match.name) }
      : match;
  const chains = planned.chains.map((chain) => ({
    ...chain,
    rules: chain.rules.map((rule) => ({ ...rule, matches: rule.matches.map(renamed) })),
  }));
  return { ...planned, chains };
}

/** Create, fill, swap, destroy: rules see the old content until they see the new one. */
function swap(set: IpSet, cached: CachedState): readonly Change[] {
  const standIn = { ...set, name: temporaryNameOf(set.name) };
  return [
    ...temporary(set, cached.setEntries.get(set.name) ?? [], cached),
    { kind: "set-swap", set, temporary: standIn, reason: "resize" },
    { kind: "set-destroy", setName: standIn.name, reason: "leftover" },
  ];
}

function recreate(set: IpSet): readonly Change[] {
  return [
    { kind: "set-destroy", setName: set.name, reason: "incompatible-set" },
    { kind: "set-create", set, reason: "incompatible-set" },
  ];
}

/** A filled set under the temporary name; what an earlier try left there goes first. */
function temporary(
  wanted: IpSet,
  entries: Iterable<SetEntry>,
  { temporarySets }: CachedState,
): readonly Change[] {
  const set = { ...wanted, name: temporaryNameOf(wanted.name) };
  const leftover: Change = { kind: "set-destroy", setName: set.name, reason: "leftover" };
  return [
    ...(temporarySets.has(set.name) ? [leftover] : []),
    { kind: "set-create", set, reason: "missing" },
    ...[...entries].map((entry): Change => ({ kind: "entry-add", set, entry, reason: "missing" })),
  ];
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

function isUsedByThirdParty(cached: CachedState, wanted: IpSet, present: ObservedIpSet): boolean {
  const texts = [...cached.rules.values()].flatMap(({ chains }) => [...chains.values()].flat());
  const words = texts.flatMap((text) => text.split(" --match-set ").slice(1));
  const own = words.filter((text) => text.startsWith(`${wanted.name} `)).length;
  return present.references > own;
}

/** A set of another type that cannot be replaced. */
class IncompatibleSetError extends Error {
  override readonly name = "IncompatibleSetError";
  readonly code = "incompatible-set";

  constructor(wanted: IpSet, present: ObservedIpSet) {
    super(
      `Cannot replace set ${wanted.name} (${present.type}) by one of ${wanted.type}: third-party rules refer to it; ` +
        "remove those rules, or destroy the set",
    );
  }
}

/** Refused without asking the kernel. */
function replacement(wanted: IpSet, present: ObservedIpSet): RefusedChange {
  return {
    change: { kind: "set-destroy", setName: wanted.name, reason: "incompatible-set" },
    error: new IncompatibleSetError(wanted, present),
  };
}
