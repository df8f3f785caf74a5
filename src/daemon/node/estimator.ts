/** IPVS' estimator: set as the configuration says, and named where it has very much to do. */
import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { Kernel, Sysctl } from "../../kernel/kernel.ts";
import { type EstimatorOptions, estimatorPaths, planEstimator } from "../../plan/estimator.ts";
import type { DaemonView } from "../operator/daemon-view.ts";
import { countsOf } from "../operator/object-counts.ts";
import { setSysctl } from "./set-sysctl.ts";

/** Nothing depends on it: what the kernel lacks or refuses is named, and the start goes on. */
export function setEstimator(
  kernel: Pick<Kernel, "sysctl">,
  options: EstimatorOptions,
  log: Logger,
): void {
  for (const setting of planEstimator(options)) {
    try {
      if (kernel.sysctl.read(setting.path) === undefined) {
        log.warn("Skipping sysctl, the kernel has none of this name", { entry: setting.path });
      } else setSysctl(kernel, setting, log);
    } catch (error) {
      log.error("Cannot set IPVS estimator", { err: error });
    }
  }
}

/** From here on its work is felt on nodes with many processors: docs/reports/scale.md. */
const manyServers = 10_000;
const pauseMs = 600_000;
/** Syncs of the start are over by then, unless there are very many. */
const firstPauseMs = 30_000;

export interface EstimatorWatchParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly sysctl: Pick<Sysctl, "read">;
  readonly view: DaemonView;
}

/** Counts now and then, and warns once while there are too many servers. Returns the stop. */
export function watchEstimator(parts: EstimatorWatchParts): () => void {
  let isReported = false;
  let isStopped = false;
  let cancel = (): void => {};
  const check = async (): Promise<void> => {
    const count = await estimatedServers(parts);
    if (isStopped) return;
    if (count >= manyServers && !isReported) warn(parts, count);
    isReported = count >= manyServers;
    arm(pauseMs);
  };
  const arm = (delayMs: number): void => {
    cancel = parts.clock.after(delayMs, () => background(check(), parts.log, "estimator check"));
  };
  arm(firstPauseMs);
  return () => {
    isStopped = true;
    cancel();
  };
}

/** Virtual and real servers whose counters it adds up; 0 where it is off. */
async function estimatedServers({ clock, sysctl, view }: EstimatorWatchParts): Promise<number> {
  if (sysctl.read(estimatorPaths.isRunning) === "0") return 0;
  const { virtualServers, realServers } = await inSlices(clock, countsOf(view));
  return virtualServers + realServers;
}

function warn({ log, sysctl }: EstimatorWatchParts, servers: number): void {
  const hasThreads = sysctl.read(estimatorPaths.cpuList) !== undefined;
  const canStop = sysctl.read(estimatorPaths.isRunning) !== undefined;
  const advice = hasThreads
    ? "give its threads processors of their own (kubeIpvs.estimatorCpus) or switch it off (kubeIpvs.runEstimation: off)"
    : canStop
      ? "switch it off (kubeIpvs.runEstimation: off); traffic figures are lost"
      : "Linux 5.16 or newer can switch it off";
  log.warn("IPVS estimator has many servers to add up every 2 s", { servers, advice });
}
