/**
 * The sets: made, made anew where they have other parameters than they should, and tidied up. Rules refer
 * to sets all the time and must find their entries in them at every moment.
 *
 * | the set in the kernel | what becomes of it |
 * |---|---|
 * | absent | created |
 * | our type and family, other capacity or options | a temporary set is filled and swapped with it |
 * | another type or family, no rule refers to it | destroyed and created |
 * | another type or family, our rules refer to it | our rules are led to a filled temporary set for as long as it takes |
 * | another type or family, rules of others refer to it | left as it is, and reported |
 */
import type { IpFamily } from "../base/ip.ts";
import { capacityFor, setsFor, temporaryNameOf } from "../plan/sets.ts";
import { type IpSet, isSwappable, type ObservedIpSet, sameIpSet } from "../state/ip-set.ts";
import type { Match, Rule, RuleSet } from "../state/rule.ts";
import type { SetEntry } from "../state/set-entry.ts";
import { diffRules, knownRulesAfter } from "./diff-rules.ts";
import { isSetInUse } from "./kernel-errors.ts";
import type { SyncContext } from "./sync-context.ts";

/** A set of our name that has to go, and what is to take its place. */
interface Misfit {
  readonly wanted: IpSet;
  readonly present: ObservedIpSet;
}

/** Sets are made for the families whose rules are planned, used or not: rules refer to them by name. */
export async function ensureSets(context: SyncContext): Promise<void> {
  const added = addedCounts(context);
  const referenced: Misfit[] = [];
  for (const set of [...context.goal.rules.keys()].flatMap(setsFor)) {
    const present = context.known.sets.get(set.name);
    const wanted = withCapacity(set, present, added.get(set.name) ?? 0, context);
    if (present === undefined) await createSet(context, wanted);
    else if (sameIpSet(wanted, present)) continue;
    else if (isSwappable(wanted, present)) await migrate(context, wanted, swapIn);
    else if (present.references === 0) await migrate(context, wanted, remake);
    else referenced.push({ wanted, present });
  }
  if (referenced.length > 0) await replaceReferenced(context, referenced);
}

/** Destroys what migrations left behind. One that a rule still refers to waits for the next time. */
export async function removeTemporarySets({ kernel, known, report }: SyncContext): Promise<void> {
  for (const name of known.temporarySets) {
    try {
      await kernel.ipSets.destroy(name);
      known.temporarySets.delete(name);
      report.count("set-destroy");
    } catch (error) {
      if (!isSetInUse(error)) report.fail("set-destroy", name, error);
    }
  }
}

function addedCounts({ work }: SyncContext): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { set } of work.addedEntries) counts.set(set.name, (counts.get(set.name) ?? 0) + 1);
  return counts;
}

/**
 * New entries come before old ones go, so the set must hold both. It grows whenever it must, and shrinks
 * to kube-proxy's capacity in full passes only: a count around the limit shall not move it with each sync.
 */
function withCapacity(
  set: IpSet,
  present: ObservedIpSet | undefined,
  addedCount: number,
  { known, goal }: SyncContext,
): IpSet {
  if (set.type === "bitmap:port") return set;
  const count = (known.setEntries.get(set.name)?.size ?? 0) + addedCount;
  const fits = present !== undefined && count <= present.maxElements;
  const keeps = fits && goal.dirty !== "all";
  return { ...set, maxElements: keeps ? present.maxElements : capacityFor(count) };
}

async function createSet(context: SyncContext, set: IpSet): Promise<void> {
  try {
    await context.kernel.ipSets.create(set);
    noteCreated(context, set, new Set());
    context.report.count("set-create");
  } catch (error) {
    context.report.fail("set-create", set.name, error);
  }
}

async function migrate(
  context: SyncContext,
  wanted: IpSet,
  replace: (context: SyncContext, wanted: IpSet) => Promise<void>,
): Promise<void> {
  const { report, log, known } = context;
  const { name, maxElements } = wanted;
  const hadElements = known.sets.get(name)?.maxElements;
  try {
    await replace(context, wanted);
    report.count("set-migrate");
    log.info("Set was made anew, having had other parameters", {
      set: name,
      maxElements,
      hadElements,
    });
  } catch (error) {
    report.fail("set-migrate", name, error);
  }
}

/** Create, fill, swap, destroy: rules see the old content until they see the new one. */
async function swapIn(context: SyncContext, wanted: IpSet): Promise<void> {
  const { kernel, known } = context;
  const entries = known.setEntries.get(wanted.name) ?? new Set();
  const temporary = await makeTemporary(context, wanted, entries);
  await kernel.ipSets.swap(wanted.name, temporary.name);
  noteCreated(context, wanted, new Set(entries));
  await kernel.ipSets.destroy(temporary.name);
  known.temporarySets.delete(temporary.name);
}

async function remake(context: SyncContext, wanted: IpSet): Promise<void> {
  await context.kernel.ipSets.destroy(wanted.name);
  await context.kernel.ipSets.create(wanted);
  noteCreated(context, wanted, new Set());
}

/** The kernel swaps only sets of one type: instead, rules are led around the set while it is remade. */
async function replaceReferenced(context: SyncContext, misfits: readonly Misfit[]): Promise<void> {
  const { report } = context;
  const movable = misfits.filter((misfit) => !isUsedByOthers(context, misfit));
  for (const { wanted, present } of misfits) {
    if (isUsedByOthers(context, { wanted, present })) {
      report.fail("set-migrate", wanted.name, new ForeignReferenceError(wanted, present));
    }
  }
  if (movable.length === 0) return;
  try {
    await leadAround(
      context,
      movable.map(({ wanted }) => wanted),
    );
  } catch (error) {
    for (const { wanted } of movable) report.fail("set-migrate", wanted.name, error);
    return;
  }
  for (const { wanted } of movable) await migrate(context, wanted, remake);
}

/** A set of another type that cannot be replaced. */
export class ForeignReferenceError extends Error {
  constructor(wanted: IpSet, present: ObservedIpSet) {
    super(
      `Cannot replace set ${wanted.name} (${present.type}) by one of ${wanted.type}: rules of others refer ` +
        "to it; remove those rules, or destroy the set",
    );
    this.name = "ForeignReferenceError";
  }
}

function isUsedByOthers({ known }: SyncContext, { wanted, present }: Misfit): boolean {
  const texts = [...known.rules.values()].flatMap(({ chains }) => [...chains.values()].flat());
  const words = texts.flatMap((text) => text.split(" --match-set ").slice(1));
  const own = words.filter((text) => text.startsWith(`${wanted.name} `)).length;
  return present.references > own;
}

/** Writes the planned rules with a filled temporary set in the place of each of `sets`. */
async function leadAround(context: SyncContext, sets: readonly IpSet[]): Promise<void> {
  const { kernel, known, goal, report } = context;
  for (const set of sets) await makeTemporary(context, set, [...goal.desired.entries(set.name)]);
  const names = new Set(sets.map(({ name }) => name));
  for (const [family, planned] of goal.rules) {
    if (!sets.some((set) => set.family === family)) continue;
    const render = renderIn(context, family);
    const detour = withTemporaryNames(planned, names);
    const present = known.rules.get(family) ?? { chains: new Map(), jumps: new Map() };
    const changes = diffRules(detour, present, render);
    await kernel.iptables.apply(family, changes);
    known.rules.set(family, knownRulesAfter(detour, render));
    report.count("rules-write", changes.length);
  }
}

function renderIn({ kernel }: SyncContext, family: IpFamily): (rule: Rule) => string {
  return (rule) => kernel.iptables.render(family, rule);
}

function withTemporaryNames(planned: RuleSet, names: ReadonlySet<string>): RuleSet {
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

/** A filled set under the temporary name; what an earlier try left there goes first. */
async function makeTemporary(
  { kernel, known }: SyncContext,
  wanted: IpSet,
  entries: Iterable<SetEntry>,
): Promise<IpSet> {
  const set = { ...wanted, name: temporaryNameOf(wanted.name) };
  await kernel.ipSets.destroy(set.name);
  await kernel.ipSets.create(set);
  known.temporarySets.add(set.name);
  const changes = [...entries].map((entry) => ({ kind: "add", set, entry }) as const);
  const [failed] = await kernel.ipSets.apply(changes);
  if (failed !== undefined) throw failed.error;
  return set;
}

function noteCreated({ known }: SyncContext, set: IpSet, entries: Set<SetEntry>): void {
  known.sets.set(set.name, { ...set, references: 0, elementCount: entries.size });
  known.setEntries.set(set.name, entries);
}
