import type { IpFamily } from "../base/ip.ts";

/** A sync of one family's tables in mode iptables. */
export interface TablesSync {
  /** `full`: all rules were compared. */
  readonly kind: "full" | "partial";
  readonly seconds: number;
  /** Rules in our chains, by table; empty: not known. */
  readonly totalRules: ReadonlyMap<string, number>;
  /** Rules that were written, by table. */
  readonly writtenRules: ReadonlyMap<string, number>;
}

/** What the program counts and measures. Each call is cheap; none throws. */
export interface Metrics {
  /** A sync is asked for. */
  syncQueued(family: IpFamily): void;
  /** A sync ended, well or not. */
  syncFinished(family: IpFamily, seconds: number): void;
  syncSucceeded(family: IpFamily): void;
  /** The first sync since the start succeeded. */
  firstSyncCompleted(): void;
  /** `full`: the whole kernel state was compared. Once for each sync, whatever the families. */
  syncRun(kind: "full" | "partial", result: "success" | "failure"): void;
  /** Seconds from a change in the cluster until the kernel followed it. */
  networkProgrammed(family: IpFamily, seconds: number): void;
  /** `times`: how many families see the change. */
  serviceChanged(times: number, pendingCount: number): void;
  endpointSliceChanged(pendingCount: number): void;
  /** A sync took all pending changes. */
  changesTaken(): void;
  /** Service ports with a Local policy whose endpoints are all on other nodes. */
  noLocalEndpoints(policy: "internal" | "external", family: IpFamily, count: number): void;
  iptablesRestoreFailed(family: IpFamily): void;
  /** Of the failed runs, those that wrote only what had changed. */
  partialRestoreFailed(family: IpFamily): void;
  tablesSynced(family: IpFamily, sync: TablesSync): void;
  /** A check for stale conntrack entries that could list them. */
  conntrackReconciled(family: IpFamily, seconds: number, deletedCount: number): void;
  healthzAnswered(status: number): void;
  livezAnswered(status: number): void;
  kernelChanges(kind: string, result: "success" | "failure", times: number): void;
  /** `reason` is one of the fixed codes, never text from an object. */
  objectRefused(resource: string, reason: string): void;
  /** A list would take away too much; `outcome`: held, confirmed, refuted or expired. */
  listQuarantined(resource: string, outcome: string): void;
  foreignVirtualServers(count: number): void;
  /** A check between syncs found that a third party changed sets or rules. */
  driftDetected(state: "sets" | "rules"): void;
  /** A third party changed an object of ours; `action`: repair, suppress (wait with it) or report (do nothing). */
  drifted(kind: string, action: string): void;
  /** Repairs that a third party keeps reverting. */
  suppressedRepairs(kind: string, count: number): void;
  /** Real servers that keep a weight of a third party. */
  manualWeights(count: number): void;
  /** Objects that the kernel refuses at the moment; `reason` is an errno's name or an exit code. */
  refusedObjects(kind: string, reason: string, count: number): void;
  /** What would be changed, were not everything only observed. */
  pendingChanges(kind: string, count: number): void;
  /** Frontends of Services that are not served, or not as asked; `reason` is one of the fixed codes. */
  conflicts(reason: string, count: number): void;
  /** Annotations of Services that do not count; `reason` is one of the fixed codes. */
  ignoredAnnotations(reason: string, count: number): void;
  /** Age 0 when nothing drains. */
  draining(count: number, oldestAgeSeconds: number): void;
  eventLoopDelayed(seconds: number): void;
  /** The API server's, when it is known and when it changes. */
  serverVersion(version: {
    readonly major: string;
    readonly minor: string;
    readonly gitVersion: string;
  }): void;
  /** `code` is the HTTP status, or `<error>` where the API server gave no answer. */
  apiRequestAnswered(method: string, host: string, code: string): void;
  /** A request other than a watch ended; `receivedBytes` is absent where no answer came. */
  apiRequestEnded(
    method: string,
    host: string,
    figures: {
      readonly seconds: number;
      readonly sentBytes: number;
      readonly receivedBytes?: number;
    },
  ): void;
}

/** Counts nothing; for tests and commands that end at once. */
export const silentMetrics: Metrics = {
  syncQueued() {},
  syncFinished() {},
  syncSucceeded() {},
  firstSyncCompleted() {},
  syncRun() {},
  networkProgrammed() {},
  serviceChanged() {},
  endpointSliceChanged() {},
  changesTaken() {},
  noLocalEndpoints() {},
  iptablesRestoreFailed() {},
  partialRestoreFailed() {},
  tablesSynced() {},
  conntrackReconciled() {},
  healthzAnswered() {},
  livezAnswered() {},
  kernelChanges() {},
  objectRefused() {},
  listQuarantined() {},
  foreignVirtualServers() {},
  driftDetected() {},
  drifted() {},
  manualWeights() {},
  suppressedRepairs() {},
  refusedObjects() {},
  pendingChanges() {},
  conflicts() {},
  ignoredAnnotations() {},
  draining() {},
  eventLoopDelayed() {},
  serverVersion() {},
  apiRequestAnswered() {},
  apiRequestEnded() {},
};
