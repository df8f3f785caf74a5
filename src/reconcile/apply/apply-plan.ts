/** Carries out the changes of a plan in their order: groups them into requests, and notes the outcome of each. */
import type { IpAddress } from "../../base/ip.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import type { Change, ChangeOf } from "../change.ts";
import type { ChangePlan } from "../change-plan.ts";
import type { CachedState } from "../observed/cached-state.ts";
import { subjectOf } from "../subject.ts";
import { NotDone } from "./blocked.ts";
import { foldDone } from "./fold.ts";
import { OutcomeCollector, type Outcomes } from "./outcome.ts";
import { isNotPermitted, isSetInUse } from "./refusal-reason.ts";
import { type ChangeGroup, goTogether, kinds, sendGroup, sendSingle } from "./requests.ts";
import { type ConntrackCleaner, cleanConntrack } from "./stale-flows.ts";
import { isServedBy, unservedAddresses } from "./unserved.ts";

/** Changes that are encoded and sent together: a few datagrams. Between two batches the event loop has its turn. */
const changesPerBatch = 2_000;

/** Called before the first batch and after each: so many changes of so many have their outcome. */
export type ApplyProgress = (done: number, total: number) => void;

export interface ApplyTools {
  readonly kernel: Kernel;
  readonly cached: CachedState;
  readonly desired: Pick<DesiredView, "virtualServer" | "serversOfAddress">;
  readonly cleaner: ConntrackCleaner;
}

/**
 * As `applyChanges`, and takes away the addresses whose virtual servers could not be made. `onProgress` absent: nobody waits
 * for it.
 */
export async function applyPlan(
  { changes, deferred }: Pick<ChangePlan, "changes" | "deferred">,
  tools: ApplyTools,
  onProgress?: ApplyProgress,
): Promise<Outcomes> {
  const outcomes = new OutcomeCollector();
  await applyInOrder(changes, { tools, outcomes, notDone: new NotDone() }, onProgress);
  const { refused, blocked } = outcomes;
  const notMade = [...deferred, ...refused].map(({ change }) => change);
  const unserved = unservedAddresses([...notMade, ...blocked], tools);
  await applyInOrder(unserved, { tools, outcomes, notDone: new NotDone() });
  return outcomes;
}

/** Applies the changes and folds what was done into the cache. Never rejects: what failed is in the outcomes. */
export async function applyChanges(
  changes: readonly Change[],
  tools: ApplyTools,
): Promise<Outcomes> {
  const outcomes = new OutcomeCollector();
  await applyInOrder(changes, { tools, outcomes, notDone: new NotDone() });
  return outcomes;
}

async function applyInOrder(
  changes: readonly Change[],
  pass: Pass,
  onProgress?: ApplyProgress,
): Promise<void> {
  let done = 0;
  onProgress?.(done, changes.length);
  for (const { group, batch } of batchesOf(changes)) {
    await applyBatch(group, batch, pass);
    done += batch.length;
    onProgress?.(done, changes.length);
  }
}

interface Pass {
  readonly tools: ApplyTools;
  readonly outcomes: OutcomeCollector;
  readonly notDone: NotDone;
}

/** Neighbors of one group, at most so many at once. */
function* batchesOf(
  changes: readonly Change[],
): Generator<{ readonly group: ChangeGroup; readonly batch: readonly Change[] }> {
  for (let first = 0; first < changes.length; ) {
    const change = changes[first] as Change;
    const { group } = kinds[change.kind];
    // A restore is one transaction.
    const most = first + (group === "rules" ? changes.length : changesPerBatch);
    let end = first + 1;
    while (end < Math.min(changes.length, most) && goTogether(change, changes[end] as Change))
      end += 1;
    yield { group, batch: changes.slice(first, end) };
    first = end;
  }
}

async function applyBatch(group: ChangeGroup, batch: readonly Change[], pass: Pass): Promise<void> {
  const { tools, outcomes } = pass;
  const ready = withoutBlocked(batch, pass);
  if (ready.length === 0) return;
  if (group === "conntrack") {
    const deletions = ready as readonly ChangeOf<"conntrack-delete">[];
    return cleanConntrack(tools.cleaner, deletions, tools.cached, outcomes);
  }
  try {
    const refused = await send(group, ready, tools.kernel);
    noteOutcomes(ready, refused, pass);
  } catch (error) {
    noteUnknown(ready, error as Error, pass);
  }
}

function withoutBlocked(
  batch: readonly Change[],
  { tools, outcomes, notDone }: Pass,
): readonly Change[] {
  if (notDone.isEmpty) return batch;
  const { cached, desired } = tools;
  // Virtual servers come before addresses: those that are to be made are cached by then, or were not made.
  const isMade = (key: string): boolean => cached.virtualServers.has(key);
  return batch.filter((change) => {
    const isServed = (address: IpAddress): boolean => isServedBy(address, desired, isMade);
    if (!notDone.blocks(change, cached, isServed)) return true;
    outcomes.blocked.push(change);
    notDone.note(change);
    return false;
  });
}

/** Errors of refused changes, by index. */
async function send(
  group: Exclude<ChangeGroup, "conntrack">,
  ready: readonly Change[],
  kernel: Kernel,
): Promise<ReadonlyMap<number, Error>> {
  if (group !== "single") {
    const failed = await sendGroup(group, ready, kernel);
    return new Map(failed.map(({ index, error }) => [index, error]));
  }
  try {
    await sendSingle(ready[0] as Parameters<typeof sendSingle>[0], kernel);
    return new Map();
  } catch (error) {
    if (isUnknown(error as Error)) throw error;
    return new Map([[0, error as Error]]);
  }
}

/** A request of one change rejects either way: these mean that nothing is known. */
function isUnknown(error: Error): boolean {
  const { code } = error as { readonly code?: unknown };
  return code === "ENOBUFS" || code === "ETIMEDOUT" || code === "EBADF";
}

function noteOutcomes(
  ready: readonly Change[],
  refused: ReadonlyMap<number, Error>,
  pass: Pass,
): void {
  const { outcomes, notDone, tools } = pass;
  if (refused.size === ready.length && [...refused.values()].every(isNotPermitted)) {
    noteUnknown(ready, refused.get(0) as Error, pass);
    return;
  }
  const done = refused.size === 0 ? ready : ready.filter((_, index) => !refused.has(index));
  for (const change of done) outcomes.count(change.kind);
  foldDone(done, tools);
  for (const [index, error] of refused) {
    const change = ready[index] as Change;
    notDone.note(change);
    // A leftover to which a rule still refers waits for the next sync.
    if (change.kind === "set-destroy" && change.reason === "leftover" && isSetInUse(error))
      continue;
    outcomes.refused.push({ change, error });
  }
}

function noteUnknown(ready: readonly Change[], error: Error, { outcomes, notDone }: Pass): void {
  for (const change of ready) notDone.note(change);
  const [first] = ready as readonly [Change];
  const { part } = kinds[first.kind];
  outcomes.unknown.push({
    kind: first.kind,
    first: subjectOf(first),
    count: ready.length,
    error,
    ...(part === undefined ? {} : { part }),
  });
}
