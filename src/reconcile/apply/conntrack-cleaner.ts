import type { Clock } from "../../base/clock.ts";
import type { Conntrack } from "../../kernel/kernel.ts";
import { realServerKey } from "../../state/real-server.ts";
import type { ChangeOf } from "../change.ts";
import type { CachedState } from "../observed/cached-state.ts";
import { subjectOf } from "../subject.ts";
import { deleteStaleFlows } from "./delete-stale-flows.ts";
import type { OutcomeCollector } from "./outcome.ts";
import type { AllowedAnswers } from "./stale-flows.ts";

type Deletion = ChangeOf<"conntrack-delete">;

/**
 * Deletes stale conntrack entries of UDP flows. The connection table may hold a million of them: the kernel is asked for
 * those in question only. What could not be done is kept for the next time.
 */
export class ConntrackCleaner {
  readonly #conntrack: Conntrack;
  readonly #clock: Clock;
  readonly #pending = new Map<string, Deletion>();

  constructor(conntrack: Conntrack, clock: Clock) {
    this.#conntrack = conntrack;
    this.#clock = clock;
  }

  /** Something is left to be done. */
  get isPending(): boolean {
    return this.#pending.size > 0;
  }

  /** Carries out these deletions and what was left before. Never rejects. `cached`: who may answer. */
  async clean(
    deletions: readonly Deletion[],
    cached: CachedState,
    outcomes: OutcomeCollector,
  ): Promise<void> {
    for (const deletion of deletions) this.#pending.set(deletionKey(deletion), deletion);
    if (!this.isPending) return;
    try {
      await this.#cleanPending(cached, outcomes);
      this.#pending.clear();
    } catch (error) {
      const [pending] = [...this.#pending.values()] as [Deletion];
      outcomes.unknown.push({
        kind: "conntrack-delete",
        first: subjectOf(pending),
        count: this.#pending.size,
        error: error as Error,
      });
    }
  }

  async #cleanPending(cached: CachedState, outcomes: OutcomeCollector): Promise<void> {
    const pending = [...this.#pending.values()];
    await deleteStaleFlows(
      pending.map(({ selection }) => selection),
      allowedAnswers(cached, pending),
      {
        conntrack: this.#conntrack,
        clock: this.#clock,
        onPass: (pass) => {
          outcomes.conntrackPasses.push(pass);
          outcomes.count("conntrack-delete", pass.deletedCount);
        },
      },
    );
  }
}

function deletionKey({ key, selection: { answeredBy } }: Deletion): string {
  return answeredBy === undefined ? key : `${key} ${realServerKey(answeredBy)}`;
}

/** Real servers that drain still answer. */
function allowedAnswers(cached: CachedState, deletions: Iterable<Deletion>): AllowedAnswers {
  const allowed = new Map<string, ReadonlySet<string>>();
  for (const { key } of deletions) {
    const realServers = cached.virtualServers.get(key)?.realServers ?? [];
    allowed.set(key, new Set(realServers.map(realServerKey)));
  }
  return allowed;
}
