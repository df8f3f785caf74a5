import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { Ipvs } from "../../kernel/kernel.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import { realServerKey } from "../../state/real-server.ts";
import type { VirtualServerId } from "../../state/virtual-server.ts";
import { OutcomeCollector, type Outcomes } from "../apply/outcome.ts";
import type { Change } from "../change.ts";
import { type ChangePlan, type DrainStart, servicesOfChange } from "../change-plan.ts";
import { conntrackDeletion } from "../diff/diff-servers.ts";
import { type RefusalReport, Refusals } from "../refusals.ts";
import { type Failure, type OutcomeReport, reportOf } from "../report.ts";
import { type Subject, subjectKey, subjectOf } from "../subject.ts";
import { type Begun, type Ended, logBegun, logEnded } from "./drain-log.ts";
import {
  type Drain,
  type DrainPolicy,
  type DrainStartTimes,
  Drains,
  drainEnd,
  drainKey,
  drainPolicyOf,
} from "./drains.ts";

/** Virtual servers in one check between syncs: a sync that is due waits for no more. */
const serversPerCheck = 1_000;

export const noEnds: OutcomeReport = reportOf(new OutcomeCollector());

export interface DrainerParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly startTimes: DrainStartTimes;
  readonly ipvs: Pick<Ipvs, "listRealServers">;
  /** Never rejects. */
  apply(changes: readonly Change[], desired: DesiredView): Promise<Outcomes>;
}

/**
 * Lets real servers go without breaking their connections: weight 0 first, which takes no new ones; then the connections
 * that are left are counted; removal when there are none. Weight 0 before the count, or a connection that is opened
 * between the two would be cut. A removal that the kernel refuses is retried with back-off.
 */
export class Drainer {
  readonly #drains = new Drains();
  readonly #parts: DrainerParts;
  readonly #refusedEnds = new Refusals();
  /** Keys of virtual servers still to be checked in this round. */
  #uncheckedKeys: string[] = [];
  /** Something began or ended that the start times do not know of. At first they know too much. */
  #isUnkept = true;

  constructor(parts: DrainerParts) {
    this.#parts = parts;
  }

  /** What drains now. */
  get drains(): Pick<Drains, "all" | "of" | "find" | "isDraining"> {
    return this.#drains;
  }

  get count(): number {
    return this.#drains.size;
  }

  /** Seconds since the oldest drain began; 0 when nothing drains. */
  get oldestAgeSeconds(): number {
    const since = this.#drains.oldestSinceMs;
    return since === undefined ? 0 : (this.#parts.clock.monotonicMs() - since) / 1000;
  }

  /** Drains of real servers that are wanted again, or whose virtual server goes, end here. `keys` undefined: all. */
  endUnneeded(desired: DesiredView, keys: Iterable<string> | undefined): void {
    const ended = [...(keys ?? this.#drains.virtualServerKeys())].flatMap((key) =>
      this.#unneededOf(key, desired),
    );
    for (const { drain } of ended) this.#end(drain);
    this.#logEnded(ended);
  }

  /** Planning touched these virtual servers: what was refused of theirs is retried at once. */
  hasten(virtualServers: ReadonlySet<string>): void {
    const isTouched = (subject: Subject): boolean =>
      "virtualServer" in subject && virtualServers.has(subject.virtualServer);
    this.#refusedEnds.hasten(isTouched, this.#parts.clock.monotonicMs());
  }

  /** Ends that the kernel refuses. Those of drains that are over for another reason have ended, too. */
  takeRefusals(): RefusalReport {
    this.#refusedEnds.endWhere(
      (subject) =>
        subject.type !== "real-server" ||
        !this.#drains.isDraining(subject.virtualServer, subject.realServer),
    );
    return this.#refusedEnds.takeReport();
  }

  /** After a sync: what lost its weight drains from now on; what is idle from the start goes at once, and is no news. */
  async after(
    plan: ChangePlan,
    outcomes: Outcomes,
    desired: DesiredView,
    policy: DrainPolicy,
  ): Promise<OutcomeReport> {
    const begun = this.#begin(plan, outcomes);
    if (begun.length === 0) return noEnds;
    const keys = begun.map(({ drain }) => drain.virtualServerKey);
    const ends = await this.#removeDue(keys, desired, policy, begun);
    const news = begun.filter(({ drain }) => this.#isDraining(drain));
    logBegun(this.#parts.log, news);
    this.#logUnknownStarts(news);
    return ends;
  }

  /** Removes what is idle or due. Of very many virtual servers some each time, in turn. */
  check(desired: DesiredView, policy: DrainPolicy): Promise<OutcomeReport> {
    if (this.#uncheckedKeys.length === 0) {
      this.#uncheckedKeys = [...this.#drains.virtualServerKeys()];
    }
    return this.#removeDue(this.#uncheckedKeys.splice(0, serversPerCheck), desired, policy);
  }

  /** Notes what drains now for the program that runs after this one. */
  keepStartTimes(): void {
    if (!this.#isUnkept) return;
    this.#isUnkept = false;
    this.#parts.startTimes.keep(this.#drains.all());
  }

  /** Those whose weight is 0 in the kernel. Those of an earlier run keep their start times. */
  #begin({ drainStarts, deferred }: ChangePlan, outcomes: Outcomes): readonly Begun[] {
    if (drainStarts.length === 0) return [];
    const waiting = deferred.map(({ change }) => change);
    const isDone = doneBy(outcomes, waiting);
    const begun = drainStarts
      .filter((start) => start.reason === "found-draining" || isDone(subjectOfDrain(start)))
      .map((start) => ({ drain: this.#newDrain(start), reason: start.reason }));
    for (const { drain } of begun) this.#drains.begin(drain);
    this.#isUnkept ||= begun.length > 0;
    return begun;
  }

  /** Removes what is idle or due in these virtual servers. A drain whose removal is refused goes on, with its age. */
  async #removeDue(
    keys: readonly string[],
    desired: DesiredView,
    policy: DrainPolicy,
    newcomers: readonly Begun[] = [],
  ): Promise<OutcomeReport> {
    if (keys.length === 0) return noEnds;
    const { clock, apply } = this.#parts;
    try {
      const nowMs = clock.monotonicMs();
      const due = await this.#findDue(keys, desired, policy);
      const removals = due.map(({ drain }) => removal(drain));
      const outcomes = await apply([...removals, ...flowDeletions(due)], desired);
      const refused = outcomes.refused.filter(({ change }) => change.kind === "real-server-remove");
      // A virtual server that no Service wants goes with everything in it: nobody is asked who wanted it.
      const servicesOf = servicesOfChange(desired);
      this.#refusedEnds.refuse(refused, { servicesOf }, nowMs);
      const isDone = doneBy(outcomes);
      const ended = due.filter(({ drain }) => isDone(subjectOfDrain(drain)));
      for (const { drain } of ended) this.#end(drain);
      const unlogged = new Set(newcomers.map(({ drain }) => drain));
      this.#logEnded(ended.filter(({ drain }) => !unlogged.has(drain)));
      return reportOf(outcomes);
    } catch (error) {
      const subject = "draining real servers";
      const failure: Failure = { kind: "observe", subject, error: error as Error };
      return { ...noEnds, failures: [failure] };
    }
  }

  /** Counts the connections of what drains, but for what waits after a refusal. Rejects with what the kernel says. */
  async #findDue(
    keys: readonly string[],
    desired: DesiredView,
    policy: DrainPolicy,
  ): Promise<readonly Ended[]> {
    const { clock, ipvs } = this.#parts;
    const askedMs = clock.monotonicMs();
    const isWaiting = (drain: Drain): boolean =>
      this.#refusedEnds.isWaiting(subjectKey(subjectOfDrain(drain)), askedMs);
    const groups = [...new Set(keys)]
      .map((key) => this.#drains.of(key).filter((drain) => !isWaiting(drain)))
      .filter((group) => group.length > 0);
    if (groups.length === 0) return [];
    const observed = await ipvs.listRealServers(
      groups.map(([first]) => first?.virtualServer as VirtualServerId),
    );
    const nowMs = clock.monotonicMs();
    return groups.flatMap((group, index) => {
      const byKey = new Map(observed[index]?.map((server) => [realServerKey(server), server]));
      return group.flatMap((drain): readonly Ended[] => {
        const key = realServerKey(drain.realServer);
        const planned = desired.virtualServer(drain.virtualServerKey);
        const isServing = planned?.stillServing?.has(key) ?? false;
        const found = { observed: byKey.get(key), isServing, nowMs };
        const reason = drainEnd(drain, found, drainPolicyOf(planned, policy));
        return reason === undefined ? [] : [{ drain, reason }];
      });
    });
  }

  #unneededOf(virtualServerKey: string, desired: DesiredView): readonly Ended[] {
    const current = this.#drains.of(virtualServerKey);
    if (current.length === 0) return [];
    const server = desired.virtualServer(virtualServerKey);
    if (server === undefined) {
      return current.map((drain) => ({ drain, reason: "virtual-server-removed" }));
    }
    const wantedKeys = new Set(server.realServers.map(realServerKey));
    return current
      .filter((drain) => wantedKeys.has(realServerKey(drain.realServer)))
      .map((drain) => ({ drain, reason: "wanted-again" }));
  }

  /** One that drains already, or that a start found, drained before: its age goes on where it is known. */
  #newDrain({ reason, ...start }: DrainStart): Drain {
    const present = this.#drains.find(start.virtualServerKey, start.realServer);
    if (present !== undefined) return { ...present, realServer: start.realServer };
    const drain = { ...start, sinceMs: this.#parts.clock.monotonicMs() };
    if (reason !== "found-draining") return drain;
    return { ...drain, sinceMs: this.#parts.startTimes.recall(drainKey(drain)) ?? drain.sinceMs };
  }

  #isDraining(drain: Drain): boolean {
    return this.#drains.find(drain.virtualServerKey, drain.realServer) === drain;
  }

  #end(drain: Drain): void {
    this.#drains.end(drain);
    this.#isUnkept = true;
  }

  #logEnded(ended: readonly Ended[]): void {
    logEnded(this.#parts.log, ended, this.#parts.clock.monotonicMs());
  }

  #logUnknownStarts(begun: readonly Begun[]): void {
    const { log, startTimes } = this.#parts;
    const count = begun.filter(
      ({ drain, reason }) =>
        reason === "found-draining" && startTimes.recall(drainKey(drain)) === undefined,
    ).length;
    if (count === 0) return;
    log.info("Drain start unknown, restarting its deadline", {
      count,
      reason: startTimes.whyUnknown ?? "the start was not recorded",
    });
  }
}

function removal({ virtualServerKey: key, virtualServer, realServer }: Drain): Change {
  const before = realServer;
  return { kind: "real-server-remove", key, virtualServer, before, reason: "drain-end" };
}

function flowDeletions(ended: readonly Ended[]): readonly Change[] {
  return ended
    .filter(({ drain: { virtualServer } }) => virtualServer.protocol === "UDP")
    .map(({ drain: { virtualServerKey, virtualServer, realServer } }) =>
      conntrackDeletion(virtualServerKey, virtualServer, realServer),
    );
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
