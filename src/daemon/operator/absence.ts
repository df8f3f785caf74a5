/** Why something that is wanted is not in the kernel, in the words of log and metrics. Pure. */
import type { ServiceName } from "../../base/service-name.ts";
import { type Subject, subjectKey } from "../../reconcile/subject.ts";
import type { SyncHistory } from "../report/sync-history.ts";

export interface Absence {
  /** A third party has this virtual server. */
  isForeign(virtualServerKey: string): boolean;
  /** A third party set its weight, and it stays. */
  isManualWeight(virtualServerKey: string, realServerKey: string): boolean;
  /** `EEXIST` and the like: rejected; `blocked`: waits for a rejected change; `reverted`: by a third party; `pending`. */
  reasonOf(subject: Subject, service: ServiceName): string;
}

/** What the last syncs found; nearly always nothing. */
export function absenceOf(
  history: Pick<SyncHistory, "rejections" | "reverted" | "manualWeights" | "claimedForeignServers">,
): Absence {
  const foreign = new Set(history.claimedForeignServers);
  const rejected = new Map(
    history.rejections.map(({ subject, reason }) => [subjectKey(subject), reason]),
  );
  const rejectedServices = new Set(history.rejections.flatMap(({ services }) => services));
  const reverted = new Set(history.reverted.map(({ subject }) => subjectKey(subject)));
  const manual = new Set(
    history.manualWeights.map((one) => `${one.virtualServerKey} ${one.realServerKey}`),
  );
  return {
    isManualWeight: (server, realServer) => manual.has(`${server} ${realServer}`),
    isForeign: (key) => foreign.has(key),
    reasonOf: (subject, service) => {
      const key = subjectKey(subject);
      const reason = rejected.get(key);
      if (reason !== undefined) return reason;
      if (reverted.has(key)) return "reverted";
      return rejectedServices.has(service) ? "blocked" : "pending";
    },
  };
}
