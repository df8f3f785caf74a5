/** What the kernel's estimator, which adds up the counters of IPVS, is to be set to. Pure. */
import type { SysctlSetting } from "./sysctls.ts";

export interface EstimatorOptions {
  /** If undefined, the node's own value stays. */
  readonly isRunning?: boolean;
  /** Processors that its threads may use, as `0-3,8`; absent: as the node has it. */
  readonly cpuList?: string;
  /** Of its threads, -20 to 19; absent: as the node has it. */
  readonly nice?: number;
}

export const estimatorPaths = {
  isRunning: "net/ipv4/vs/run_estimation",
  cpuList: "net/ipv4/vs/est_cpulist",
  nice: "net/ipv4/vs/est_nice",
} as const;

/** Where it runs before it does: it begins at the right place. */
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
