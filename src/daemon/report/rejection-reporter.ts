import type { Logger, LogKeys } from "../../base/log.ts";
import {
  countRejections,
  type Rejection,
  type RejectionReport,
} from "../../reconcile/status/rejection.ts";
import { subjectText } from "../../reconcile/subject.ts";
import { refusedObjectEvent } from "./events.ts";
import type { ReportTargets } from "./loop-reporter.ts";

/** Lines of one sync at every verbosity; the others are there from 2 on. */
const maxLines = 20;

/** Reports changes that the kernel rejects: a line and an Event when it begins, a line when it ends, a gauge meanwhile. */
export class RejectionReporter {
  readonly #targets: ReportTargets;
  /** Series that are not zero. */
  #counted = new Map<string, readonly [kind: string, reason: string]>();

  constructor(targets: ReportTargets) {
    this.#targets = targets;
  }

  report({ begun, ended, present }: RejectionReport): void {
    this.#count(present);
    const { log, events, clock, nodeName } = this.#targets;
    for (const rejection of begun) {
      for (const service of rejection.services) {
        events.record(
          refusedObjectEvent(nodeName, service, subjectText(rejection.subject), rejection),
        );
      }
    }
    logEach(log, "error", "Kernel rejected a change, retrying with back-off", begun.map(keysOf));
    const nowMs = clock.monotonicMs();
    const endings = ended.map((rejection) => ({
      ...keysOf(rejection),
      attempts: rejection.attempts,
      elapsedSeconds: Number(((nowMs - rejection.sinceMs) / 1000).toFixed(1)),
    }));
    logEach(log, "info", "Kernel accepts a change that it rejected", endings);
  }

  #count(present: readonly Rejection[]): void {
    const counted = new Map<string, readonly [string, string]>();
    for (const { type, reason, count } of countRejections(present)) {
      this.#targets.metrics.refusedObjects.set({ kind: type, reason }, count);
      counted.set(`${type} ${reason}`, [type, reason]);
    }
    for (const [key, [kind, reason]] of this.#counted) {
      if (!counted.has(key)) this.#targets.metrics.refusedObjects.set({ kind, reason }, 0);
    }
    this.#counted = counted;
  }
}

function keysOf({ subject, kind, reason, error, services }: Rejection): LogKeys {
  const service = services.length > 1 ? services : services[0];
  return {
    change: kind,
    subject: subjectText(subject),
    ...(service === undefined ? {} : { service }),
    reason,
    err: error.message,
  };
}

function logEach(
  log: Logger,
  level: "error" | "info",
  event: string,
  lines: readonly LogKeys[],
): void {
  for (const keys of lines.slice(0, maxLines)) log[level](event, keys);
  const others = lines.slice(maxLines);
  for (const keys of others) log.verbose(2, event, keys);
  if (others.length > 0) {
    log.info("Suppressing similar messages below -v=2", { of: event, count: others.length });
  }
}
