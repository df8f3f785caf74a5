import type { Clock } from "../../base/clock.ts";
import { type IpFamily, ipFamilies } from "../../base/ip.ts";
import type { Conntrack } from "../../kernel/kernel.ts";
import type { FlowSelection } from "../../state/flow.ts";
import { realServerKey } from "../../state/real-server.ts";
import { virtualServerFamily } from "../../state/virtual-server.ts";
import type { ChangeOf } from "../change.ts";
import type { CachedState } from "../observed/cached-state.ts";
import { subjectOf } from "../subject.ts";
import type { OutcomeCollector } from "./outcome.ts";
import { type AllowedAnswers, staleFlows } from "./stale-flows.ts";

/** More selections than this, and the flows of the family are listed once, all of them. */
const maxSelections = 64;

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
    const allowed = allowedAnswers(cached, this.#pending.values());
    const byFamily = Map.groupBy(this.#pending.values(), ({ selection: { destination } }) =>
      virtualServerFamily({ address: destination, protocol: "UDP", port: 0 }),
    );
    for (const family of ipFamilies) {
      const selections = byFamily.get(family)?.map(({ selection }) => selection) ?? [];
      if (selections.length === 0) continue;
      const asked = selections.length > maxSelections ? [undefined] : selections;
      await this.#cleanFamily(family, asked, allowed, outcomes);
    }
  }

  async #cleanFamily(
    family: IpFamily,
    selections: readonly (FlowSelection | undefined)[],
    allowed: AllowedAnswers,
    outcomes: OutcomeCollector,
  ): Promise<void> {
    const beganMs = this.#clock.monotonicMs();
    let deletedCount = 0;
    for (const selection of selections) {
      const flows = await this.#conntrack.listUdpFlows(family, selection);
      const stale = staleFlows(flows, allowed);
      if (stale.length > 0) deletedCount += await this.#conntrack.remove(stale);
    }
    const elapsedMs = this.#clock.monotonicMs() - beganMs;
    outcomes.conntrackPasses.push({ family, elapsedMs, deletedCount });
    outcomes.count("conntrack-delete", deletedCount);
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
