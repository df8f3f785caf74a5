/** Configures the IPVS estimator, and warns if it has too many servers to process. */
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { type NextRun, Periodic } from "../../base/periodic.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { Kernel, Sysctl } from "../../kernel/kernel.ts";
import { type EstimatorOptions, estimatorPaths, planEstimator } from "../../plan/estimator.ts";
import type { DaemonView } from "../operator/daemon-view.ts";
import { countsOf } from "../operator/object-counts.ts";
import { setSysctl } from "./set-sysctl.ts";

/**
 * Applies the estimator settings. If the kernel lacks or rejects one, logs this and continues, because nothing depends
 * on the estimator.
 */
export function setEstimator(
  kernel: Pick<Kernel, "sysctl">,
  options: EstimatorOptions,
  log: Logger,
): void {
  for (const setting of planEstimator(options)) {
    try {
      if (kernel.sysctl.read(setting.path) === undefined) {
        log.warn("Skipping sysctl that the kernel does not have", { entry: setting.path });
      } else setSysctl(kernel, setting, log);
    } catch (error) {
      log.error("Cannot set IPVS estimator", { err: error });
    }
  }
}

/**
 * With this many servers or more, the estimator's work is noticeable on nodes with many processors
 * (docs/reports/scale.md).
 */
const manyServers = 10_000;
const pauseMs = 600_000;
/** Pause before the first check. By then, the syncs at startup have finished, unless there are very many objects. */
const firstPauseMs = 30_000;

export interface EstimatorWatchContext {
  readonly clock: Clock;
  readonly log: Logger;
  readonly sysctl: Pick<Sysctl, "read">;
  readonly view: DaemonView;
}

/**
 * Counts virtual and real servers periodically, and logs a warning each time their number becomes too high. Returns a
 * function that stops the checks.
 */
export function watchEstimator(parts: EstimatorWatchContext): () => void {
  let isReported = false;
  const run = async (): Promise<NextRun> => {
    const count = await estimatedServers(parts);
    if (count >= manyServers && !isReported) warn(parts, count);
    isReported = count >= manyServers;
    checks.configure({ intervalMs: pauseMs });
    return "soon";
  };
  const task = { name: "estimator check", intervalMs: firstPauseMs, maxShare: 1, run };
  const checks = new Periodic(task, parts);
  checks.start();
  return () => checks.stop();
}

/** Number of virtual and real servers whose counters the estimator processes; 0 if the estimator is off. */
async function estimatedServers({ clock, sysctl, view }: EstimatorWatchContext): Promise<number> {
  if (sysctl.read(estimatorPaths.isRunning) === "0") return 0;
  const { virtualServers, realServers } = await inSlices(clock, countsOf(view));
  return virtualServers + realServers;
}

function warn({ log, sysctl }: EstimatorWatchContext, servers: number): void {
  const hasThreads = sysctl.read(estimatorPaths.cpuList) !== undefined;
  const canStop = sysctl.read(estimatorPaths.isRunning) !== undefined;
  const advice = hasThreads
    ? "dedicate CPUs to its threads (kubeIpvs.estimatorCpus) or switch it off (kubeIpvs.runEstimation: off)"
    : canStop
      ? "switch it off (kubeIpvs.runEstimation: off); traffic rates are no longer available then"
      : "Linux 5.16 or later can switch it off";
  log.warn("IPVS estimator updates many counters every 2 s", { servers, advice });
}
