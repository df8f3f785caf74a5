/** Carries out the changes of a plan in their order: groups them into requests, and notes the outcome of each. */
import type { Kernel } from "../../kernel/kernel.ts";
import type { Change, ChangeOf, ChangeReason } from "../change.ts";
import type { ChangePlan } from "../change-plan.ts";
import { Relations, type RelationView } from "../relations.ts";
import { subjectOf } from "../subject.ts";
import { NotMade } from "./blocked.ts";
import { foldDone } from "./fold.ts";
import { OutcomeCollector, type Outcomes, type RefusedChange } from "./outcome.ts";
import { isNotPermitted, isSetInUse } from "./refusal-reason.ts";
import { type ChangeGroup, goTogether, kinds, sendGroup, sendSingle } from "./requests.ts";
import { type ConntrackCleaner, cleanConntrack } from "./stale-flows.ts";
import { withdrawals } from "./withdraw.ts";

/** Changes that are encoded and sent together: a few datagrams. Between two batches the event loop has its turn. */
const changesPerBatch = 2_000;

/** Called before the first batch and after each: so many changes of so many have their outcome. */
export type ApplyProgress = (done: number, total: number) => void;

export interface ApplyTools extends RelationView {
  readonly kernel: Kernel;
  readonly cleaner: ConntrackCleaner;
}

/** Changes that take something away, or let packets through that were kept out: made when everything else has been. */
const removalReasons: ReadonlySet<ChangeReason> = new Set([
  "unwanted",
  "loosens",
  "drain-start",
  "drain-end",
  "stale-conntrack",
]);

/**
 * Applies the additions of a plan, withdraws what lost a dependency that it cannot be without, and applies the removals.
 * `onProgress` absent: nobody waits for it.
 */
export async function applyPlan(
  { changes, deferred }: Pick<ChangePlan, "changes" | "deferred">,
  tools: ApplyTools,
  onProgress: ApplyProgress = () => {},
): Promise<Outcomes> {
  const pass = new Pass(tools);
  for (const { change } of deferred) pass.notMade.note(change);
  const found = changes.findIndex(({ reason }) => removalReasons.has(reason));
  const firstRemoval = found < 0 ? changes.length : found;
  const { length } = changes;
  await pass.apply(changes.slice(0, firstRemoval), (done) => onProgress(done, length));
  await pass.withdraw();
  await pass.apply(changes.slice(firstRemoval), (done) => onProgress(firstRemoval + done, length));
  return pass.outcomes;
}

/** Applies the changes and folds what was done into the cache. Never rejects: what failed is in the outcomes. */
export async function applyChanges(
  changes: readonly Change[],
  tools: ApplyTools,
): Promise<Outcomes> {
  const pass = new Pass(tools);
  await pass.apply(changes);
  return pass.outcomes;
}

class Pass {
  readonly outcomes: OutcomeCollector = new OutcomeCollector();
  readonly notMade: NotMade = new NotMade();
  readonly #tools: ApplyTools;
  readonly #relations: Relations;

  constructor(tools: ApplyTools) {
    this.#tools = tools;
    this.#relations = new Relations(tools);
  }

  async apply(
    changes: readonly Change[],
    onProgress: (done: number) => void = () => {},
  ): Promise<void> {
    let done = 0;
    onProgress(done);
    for (const { group, batch } of batchesOf(changes)) {
      await this.#applyBatch(group, batch);
      done += batch.length;
      onProgress(done);
    }
  }

  /** What was rejected once is tried again before anything is withdrawn for it; after an unknown outcome nothing is. */
  async withdraw(): Promise<void> {
    if (this.#findWithdrawals().length === 0) return;
    await this.#tryAgain();
    const changes = this.#findWithdrawals();
    this.outcomes.withdrawn.push(...changes);
    await this.apply(changes);
  }

  #findWithdrawals(): readonly Change[] {
    const { distrusted } = this.#tools;
    const isKnown = this.outcomes.unknown.length === 0;
    if (!isKnown || (this.notMade.isEmpty && distrusted.size === 0)) return [];
    const suspects = [...[...this.notMade.values()].map(subjectOf), ...distrusted.values()];
    return withdrawals(suspects, this.#relations, this.#tools);
  }

  async #tryAgain(): Promise<void> {
    const hasDependents = ({ change }: RefusedChange): boolean =>
      !this.#relations.dependentsOf(subjectOf(change)).next().done;
    const rejected = this.outcomes.takeRefused(hasDependents);
    const again = [...rejected.map(({ change }) => change), ...this.outcomes.takeBlocked()];
    for (const change of again) this.notMade.forget(change);
    await this.apply(again);
  }

  async #applyBatch(group: ChangeGroup, batch: readonly Change[]): Promise<void> {
    const { kernel, cleaner, cached } = this.#tools;
    const ready = this.#withoutBlocked(batch);
    if (ready.length === 0) return;
    if (group === "conntrack") {
      const deletions = ready as readonly ChangeOf<"conntrack-delete">[];
      return cleanConntrack(cleaner, deletions, cached, this.outcomes);
    }
    try {
      const refused = await send(group, ready, kernel);
      const isForbidden =
        refused.size === ready.length && [...refused.values()].every(isNotPermitted);
      if (isForbidden) this.#noteUnknown(ready, refused.get(0) as Error);
      else this.#noteOutcomes(ready, refused);
    } catch (error) {
      this.#noteUnknown(ready, error as Error);
    }
  }

  #withoutBlocked(batch: readonly Change[]): readonly Change[] {
    if (this.notMade.isEmpty && this.#tools.distrusted.size === 0) return batch;
    return batch.filter((change) => {
      if (!this.notMade.blocks(change, this.#relations)) return true;
      this.outcomes.blocked.push(change);
      this.notMade.note(change);
      return false;
    });
  }

  #noteOutcomes(ready: readonly Change[], refused: ReadonlyMap<number, Error>): void {
    const done = refused.size === 0 ? ready : ready.filter((_, index) => !refused.has(index));
    foldDone(done, this.#tools);
    for (const change of done) this.outcomes.count(change.kind);
    for (const [index, error] of refused) {
      const change = ready[index] as Change;
      this.notMade.note(change);
      // A leftover to which a rule still refers waits for the next sync.
      if (change.kind === "set-destroy" && change.reason === "leftover" && isSetInUse(error))
        continue;
      this.outcomes.refused.push({ change, error });
    }
  }

  #noteUnknown(ready: readonly Change[], error: Error): void {
    for (const change of ready) this.notMade.note(change);
    const [first] = ready as readonly [Change];
    const { part } = kinds[first.kind];
    this.outcomes.unknown.push({
      kind: first.kind,
      first: subjectOf(first),
      count: ready.length,
      error,
      ...(part === undefined ? {} : { part }),
    });
  }
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
