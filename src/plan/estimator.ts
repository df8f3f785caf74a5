/** Settings for the kernel's estimator, which sums the IPVS counters. Pure. */
import type { SysctlSetting } from "./sysctls.ts";

export interface EstimatorOptions {
  /** If undefined, the node's value is kept. */
  readonly isRunning?: boolean;
  /** CPUs on which the estimator threads may run, such as `0-3,8`. If undefined, the node's value is kept. */
  readonly cpuList?: string;
  /** Nice value of the estimator threads, -20 to 19. If undefined, the node's value is kept. */
  readonly nice?: number;
}

export const estimatorPaths = {
  isRunning: "net/ipv4/vs/run_estimation",
  cpuList: "net/ipv4/vs/est_cpulist",
  nice: "net/ipv4/vs/est_nice",
} as const;

/** Sets the CPUs and nice value before the estimator starts, so that its threads start with them. */
export function planEstimator({
  isRunning,
  cpuList,
  nice,
}: EstimatorOptions): readonly SysctlSetting[] {
  return [
    ...(cpuList === undefined ? [] : [{ path: estimatorPaths.cpuList, value: cpuList }]),
    ...(nice === undefined ? [] : [{ path: estimatorPaths.nice, value: String(nice) }]),
    ...(isRunning === undefined
      ? []
      : [{ path: estimatorPaths.isRunning, value: isRunning ? "1" : "0" }]),
  ];
}
