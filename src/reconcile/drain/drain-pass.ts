import type { Ipvs } from "../../kernel/kernel.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import { realServerKey } from "../../state/real-server.ts";
import { OutcomeCollector, type Outcomes } from "../apply/outcome.ts";
import type { Change } from "../change.ts";
import type { ChangePlan } from "../change-plan.ts";
import { type Failure, type OutcomeReport, reportOf } from "../report.ts";
import { subjectKey, subjectOf } from "../subject.ts";
import type { Begun } from "./drain-log.ts";
import type { Drainer } from "./drainer.ts";
import type { DrainPolicy } from "./drains.ts";

export const noEnds: OutcomeReport = reportOf(new OutcomeCollector());

/** What a pass does with the kernel. */
export interface DrainEffects {
  apply(changes: readonly Change[], desired: DesiredView): Promise<Outcomes>;
  noteUnknown(outcomes: Outcomes): void;
}

/** Begins and ends drains in the kernel. */
export class DrainPass {
  readonly #drainer: Drainer;
  readonly #ipvs: Pick<Ipvs, "listRealServers">;
  readonly #effects: DrainEffects;

  constructor(drainer: Drainer, ipvs: Pick<Ipvs, "listRealServers">, effects: DrainEffects) {
    this.#drainer = drainer;
    this.#ipvs = ipvs;
    this.#effects = effects;
  }

  /** After a sync: what lost its weight drains from now on; what is idle from the start goes at once. */
  async after(
    plan: ChangePlan,
    outcomes: Outcomes,
    desired: DesiredView,
    policy: DrainPolicy,
  ): Promise<OutcomeReport> {
    const begun = this.#begin(plan, outcomes);
    if (begun.length === 0) return noEnds;
    const keys = begun.map(({ drain }) => drain.virtualServerKey);
    const ends = await this.end(keys, desired, policy, begun);
    this.#drainer.logBegun(begun);
    return ends;
  }

  /** Removes what is idle or due in these virtual servers. A drain whose removal fails goes on, with its age. */
  async end(
    keys: readonly string[],
    desired: DesiredView,
    policy: DrainPolicy,
    newcomers: readonly Begun[] = [],
  ): Promise<OutcomeReport> {
    if (keys.length === 0) return noEnds;
    try {
      const tools = { ipvs: this.#ipvs, desired, policy };
      const due = await this.#drainer.findDueEnds(keys, tools);
      const outcomes = await this.#effects.apply(due.changes, desired);
      this.#effects.noteUnknown(outcomes);
      const isDone = doneBy(outcomes);
      const ended = due.ended.filter(({ drain: { virtualServerKey, realServer } }) =>
        isDone(virtualServerKey, realServerKey(realServer)),
      );
      this.#drainer.end(ended, newcomers);
      return reportOf(outcomes);
    } catch (error) {
      const subject = "draining real servers";
      const failure: Failure = { kind: "observe", subject, error: error as Error };
      return { ...noEnds, failures: [failure] };
    }
  }

  /** Those whose weight is 0 in the kernel. */
  #begin({ drainStarts, deferred }: ChangePlan, outcomes: Outcomes): readonly Begun[] {
    if (drainStarts.length === 0) return [];
    const waiting = deferred.map(({ change }) => change);
    const isDone = doneBy(outcomes, waiting);
    return this.#drainer.begin(
      drainStarts.filter(
        ({ virtualServerKey, realServer, reason }) =>
          reason === "found-draining" || isDone(virtualServerKey, realServerKey(realServer)),
      ),
    );
  }
}

/** Says whether the change of a real server was made. */
function doneBy(
  { refused, blocked, unknown }: Outcomes,
  waiting: readonly Change[] = [],
): (virtualServer: string, realServer: string) => boolean {
  if (unknown.some(({ part }) => part === "servers")) return () => false;
  const notDone = [...refused.map(({ change }) => change), ...blocked, ...waiting];
  const keys = new Set(notDone.map((change) => subjectKey(subjectOf(change))));
  return (virtualServer, realServer) =>
    !keys.has(subjectKey({ type: "real-server", virtualServer, realServer }));
}
