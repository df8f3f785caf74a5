import type { Clock } from "../../base/clock.ts";
import type { Ipvs } from "../../kernel/kernel.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import { realServerKey } from "../../state/real-server.ts";
import { OutcomeCollector, type Outcomes } from "../apply/outcome.ts";
import type { Change } from "../change.ts";
import { type ChangePlan, servicesOfChange } from "../change-plan.ts";
import { type RefusalReport, Refusals } from "../refusals.ts";
import { type Failure, type OutcomeReport, reportOf } from "../report.ts";
import { type Subject, subjectKey, subjectOf } from "../subject.ts";
import type { Begun } from "./drain-log.ts";
import type { Drainer } from "./drainer.ts";
import type { Drain, DrainPolicy } from "./drains.ts";

export const noEnds: OutcomeReport = reportOf(new OutcomeCollector());

/** A virtual server that no Service wants goes with everything in it. */
const noFormerServices = { formerService: () => undefined };

/** What a pass does with the kernel. */
export interface DrainEffects {
  apply(changes: readonly Change[], desired: DesiredView): Promise<Outcomes>;
  noteUnknown(outcomes: Outcomes): void;
}

/** Begins and ends drains in the kernel. A removal that the kernel refuses is retried with back-off. */
export class DrainPass {
  readonly #drainer: Drainer;
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #refusedEnds = new Refusals();
  readonly #ipvs: Pick<Ipvs, "listRealServers">;
  readonly #effects: DrainEffects;

  constructor(
    drainer: Drainer,
    {
      clock,
      ipvs,
      ...effects
    }: DrainEffects & {
      readonly clock: Pick<Clock, "monotonicMs">;
      readonly ipvs: Pick<Ipvs, "listRealServers">;
    },
  ) {
    this.#drainer = drainer;
    this.#clock = clock;
    this.#ipvs = ipvs;
    this.#effects = effects;
  }

  /** Planning touched these virtual servers: what was refused of theirs is retried at once. */
  hasten(virtualServers: ReadonlySet<string>): void {
    const isTouched = (subject: Subject): boolean =>
      "virtualServer" in subject && virtualServers.has(subject.virtualServer);
    this.#refusedEnds.hasten(isTouched, this.#clock.monotonicMs());
  }

  /** Ends that the kernel refuses. Those of drains that are over for another reason have ended, too. */
  takeRefusals(): RefusalReport {
    const { view } = this.#drainer;
    this.#refusedEnds.endWhere(
      (subject) =>
        subject.type !== "real-server" ||
        !view.isDraining(subject.virtualServer, subject.realServer),
    );
    return this.#refusedEnds.takeReport();
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

  /** Removes what is idle or due in these virtual servers. A drain whose removal is refused goes on, with its age. */
  async end(
    keys: readonly string[],
    desired: DesiredView,
    policy: DrainPolicy,
    newcomers: readonly Begun[] = [],
  ): Promise<OutcomeReport> {
    if (keys.length === 0) return noEnds;
    try {
      const nowMs = this.#clock.monotonicMs();
      const isWaiting = (drain: Drain): boolean =>
        this.#refusedEnds.isWaiting(subjectKey(subjectOfDrain(drain)), nowMs);
      const tools = { ipvs: this.#ipvs, desired, policy, isWaiting };
      const due = await this.#drainer.findDueEnds(keys, tools);
      const outcomes = await this.#effects.apply(due.changes, desired);
      this.#effects.noteUnknown(outcomes);
      const removals = outcomes.refused.filter(
        ({ change }) => change.kind === "real-server-remove",
      );
      const servicesOf = servicesOfChange(desired, noFormerServices);
      this.#refusedEnds.refuse(removals, { servicesOf }, nowMs);
      const isDone = doneBy(outcomes);
      const ended = due.ended.filter(({ drain }) => isDone(subjectOfDrain(drain)));
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
        (start) => start.reason === "found-draining" || isDone(subjectOfDrain(start)),
      ),
    );
  }
}

/** Says whether the change of a real server was made. */
function doneBy(
  { refused, blocked, unknown }: Outcomes,
  waiting: readonly Change[] = [],
): (realServer: Subject) => boolean {
  if (unknown.some(({ part }) => part === "servers")) return () => false;
  const notDone = [...refused.map(({ change }) => change), ...blocked, ...waiting];
  const keys = new Set(notDone.map((change) => subjectKey(subjectOf(change))));
  return (realServer) => !keys.has(subjectKey(realServer));
}

function subjectOfDrain({
  virtualServerKey: virtualServer,
  realServer,
}: Pick<Drain, "virtualServerKey" | "realServer">): Subject {
  return { type: "real-server", virtualServer, realServer: realServerKey(realServer) };
}
