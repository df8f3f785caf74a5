/** Explains why a desired object is not in the kernel, with the same reason codes as in logs and metrics. Pure. */
import type { HostPort } from "../../base/ip.ts";
import type { ServiceName } from "../../base/service-name.ts";
import { type Subject, subjectKey } from "../../reconcile/subject.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import type { SyncHistory } from "../report/sync-history.ts";

export interface Absence {
  /** Whether this virtual server belongs to a third party. */
  isForeign(virtualServerKey: ServerKey): boolean;
  /** The Service's annotations that have no effect, such as `kube-ipvs.io/scheduler: scheduler-not-allowed`. */
  ignoredAnnotations(service: ServiceName): readonly string[];
  /** Whether kube-ipvs keeps a weight of this real server that a third party set. */
  isManualWeight(virtualServerKey: ServerKey, realServerKey: HostPort): boolean;
  /**
   * The reason code. An errno name such as `EEXIST`: the kernel rejected the object. `blocked`: the object depends on a
   * rejected one. `reverted`: a third party keeps reverting the object. `pending`: any other reason.
   */
  reasonOf(subject: Subject, service: ServiceName): string;
}

/** Answers from the findings of the last syncs. */
export function absenceOf(
  history: Pick<
    SyncHistory,
    "rejections" | "reverted" | "manualWeights" | "claimedForeignServers" | "ignoredAnnotations"
  >,
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
  const ignored = Map.groupBy(history.ignoredAnnotations, ({ service }) => service);
  return {
    ignoredAnnotations: (service) =>
      (ignored.get(service) ?? []).map(({ annotation, reason }) => `${annotation}: ${reason}`),
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
