/** Executes a plan's changes in order. Groups them into requests and records the outcome of each change. */
import type { Kernel } from "../../kernel/kernel.ts";
import type { Change, ChangeOf, ChangeReason } from "../change.ts";
import type { ChangePlan } from "../change-plan.ts";
import { changesPerBatch } from "../kinds/kind.ts";
import { foldDone, kindOf, subjectOf } from "../kinds/kinds.ts";
import { type ConntrackCleaner, cleanConntrack } from "../kinds/stale-flows.ts";
import { Relations, type RelationView } from "../relations.ts";
import { type SubjectKey, subjectKey } from "../subject.ts";
import { NotMade } from "./blocked.ts";
import { Outcomes, type RefusedChange } from "./outcome.ts";
import { isNotPermitted } from "./refusal-reason.ts";
import { withdrawals } from "./withdraw.ts";

/**
 * Called before the first batch and after each batch, with the number of changes that have an outcome and the total
 * number.
 */
export type ApplyProgress = (done: number, total: number) => void;

export interface ApplyContext extends RelationView {
  readonly kernel: Kernel;
  readonly cleaner: ConntrackCleaner;
}

/** Reasons for changes that remove something or admit packets that were blocked. These changes are made last. */
const removalReasons: ReadonlySet<ChangeReason> = new Set([
  "unwanted",
  "loosens",
  "drain-start",
  "drain-end",
  "stale-conntrack",
]);

/**
 * Applies changes and updates the cache with the successful ones. Never rejects: failures are recorded in the
 * outcomes.
 */
export class Pass {
  readonly outcomes: Outcomes = new Outcomes();
  readonly #notMade = new NotMade();
  /** Subjects of changes that wait because a third party reverted them. */
  readonly #paced = new Set<SubjectKey>();
  readonly #context: ApplyContext;
  readonly #relations: Relations;

  constructor(context: ApplyContext) {
    this.#context = context;
    this.#relations = new Relations(context);
  }

  /** Applies a plan's additions, withdraws resources that lost a `lifetime` dependency, and applies the removals. */
  async applyPlan(
    { changes, deferred }: Pick<ChangePlan, "changes" | "deferred">,
    onProgress: ApplyProgress = () => {},
  ): Promise<void> {
    for (const { change, reason } of deferred) {
      this.#notMade.note(change);
      if (reason === "reverted") this.#paced.add(subjectKey(subjectOf(change)));
    }
    const found = changes.findIndex(({ reason }) => removalReasons.has(reason));
    const firstRemoval = found < 0 ? changes.length : found;
    const { length } = changes;
    await this.apply(changes.slice(0, firstRemoval), (done) => onProgress(done, length));
    await this.#withdraw();
    await this.apply(changes.slice(firstRemoval), (done) => {
      onProgress(firstRemoval + done, length);
    });
  }

  async apply(
    changes: readonly Change[],
    onProgress: (done: number) => void = () => {},
  ): Promise<void> {
    let done = 0;
    onProgress(done);
    for (const batch of batchesOf(changes)) {
      await this.#applyBatch(batch);
      done += batch.length;
      onProgress(done);
    }
  }

  /**
   * Withdraws resources that lost a `lifetime` dependency. First retries the rejected changes once. If any outcome is
   * unknown, nothing is withdrawn.
   */
  async #withdraw(): Promise<void> {
    if (this.#findWithdrawals().length === 0) return;
    await this.#tryAgain();
    const changes = this.#findWithdrawals();
    this.outcomes.withdrawn.push(...changes);
    await this.apply(changes);
  }

  #findWithdrawals(): readonly Change[] {
    const { distrusted } = this.#context;
    const isKnown = this.outcomes.unknown.length === 0;
    if (!isKnown || (this.#notMade.isEmpty && distrusted.size === 0)) return [];
    const suspects = [...[...this.#notMade.values()].map(subjectOf), ...distrusted.values()];
    return withdrawals(suspects, this.#paced, this.#relations, this.#context);
  }

  async #tryAgain(): Promise<void> {
    const hasDependents = ({ change }: RefusedChange): boolean =>
      !this.#relations.dependentsOf(subjectOf(change)).next().done;
    const rejected = this.outcomes.takeRefused(hasDependents);
    const again = [...rejected.map(({ change }) => change), ...this.outcomes.takeBlocked()];
    for (const change of again) this.#notMade.forget(change);
    await this.apply(again);
  }

  async #applyBatch(batch: readonly [Change, ...Change[]]): Promise<void> {
    const { kernel, cleaner, cached } = this.#context;
    const ready = this.#withoutBlocked(batch);
    const [first] = ready;
    if (first === undefined) return;
    if (first.kind === "conntrack-delete") {
      const deletions = ready as readonly ChangeOf<"conntrack-delete">[];
      return cleanConntrack(cleaner, deletions, cached, this.outcomes);
    }
    try {
      const failed = await kindOf(first).send(ready, kernel);
      const isForbidden =
        failed.length === ready.length && failed.every(({ error }) => isNotPermitted(error));
      if (isForbidden) this.noteUnknown(ready, failed[0]?.error as Error);
      else this.#noteOutcomes(ready, new Map(failed.map(({ index, error }) => [index, error])));
    } catch (error) {
      this.noteUnknown(ready, error as Error);
    }
  }

  #withoutBlocked(batch: readonly Change[]): readonly Change[] {
    if (this.#notMade.isEmpty && this.#context.distrusted.size === 0) return batch;
    return batch.filter((change) => {
      if (!this.#notMade.blocks(change, this.#relations)) return true;
      this.outcomes.blocked.push(change);
      this.#notMade.note(change);
      return false;
    });
  }

  #noteOutcomes(ready: readonly Change[], refused: ReadonlyMap<number, Error>): void {
    const done = refused.size === 0 ? ready : ready.filter((_, index) => !refused.has(index));
    foldDone(done, this.#context);
    for (const change of done) this.outcomes.count(change.kind);
    for (const [index, error] of refused) {
      const change = ready[index] as Change;
      this.#notMade.note(change);
      this.outcomes.refused.push({ change, error });
    }
  }

  protected noteUnknown(ready: readonly Change[], error: Error): void {
    for (const change of ready) this.#notMade.note(change);
    const [first] = ready as readonly [Change];
    const { part } = kindOf(first);
    this.outcomes.unknown.push({
      kind: first.kind,
      first: subjectOf(first),
      count: ready.length,
      error,
      ...(part === undefined ? {} : { part }),
    });
  }
}

/** Groups consecutive changes that can share a request, up to the maximum batch size. */
function* batchesOf(changes: readonly Change[]): Generator<readonly [Change, ...Change[]]> {
  for (let first = 0; first < changes.length; ) {
    const change = changes[first] as Change;
    const { isTransaction } = kindOf(change);
    const key = requestKeyOf(change);
    const most = isTransaction ? changes.length : Math.min(changes.length, first + changesPerBatch);
    let end = first + 1;
    while (key !== undefined && end < most && requestKeyOf(changes[end] as Change) === key)
      end += 1;
    yield changes.slice(first, end) as [Change, ...Change[]];
    first = end;
  }
}

function requestKeyOf(change: Change): string | undefined {
  return kindOf(change).requestKey?.(change);
}
