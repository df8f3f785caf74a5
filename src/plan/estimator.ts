/** Settings for the kernel's estimator, which sums the IPVS counters. Pure. */
import type { SysctlSetting } from "./sysctls.ts";

/** Settings under `kubeIpvs`. `keep` and empty texts keep the node's values. */
export interface EstimatorOptions {
  readonly runEstimation: "keep" | "on" | "off";
  readonly estimatorCpus: string;
  readonly estimatorNice: string;
}

export const estimatorPaths = {
  isRunning: "net/ipv4/vs/run_estimation",
  cpuList: "net/ipv4/vs/est_cpulist",
  nice: "net/ipv4/vs/est_nice",
} as const;

/** Lists the CPUs and nice value before the setting that starts the estimator, so that its threads use them. */
export function planEstimator(options: EstimatorOptions): readonly SysctlSetting[] {
  const { runEstimation, estimatorCpus, estimatorNice } = options;
  return [
    { path: estimatorPaths.cpuList, value: estimatorCpus },
    { path: estimatorPaths.nice, value: estimatorNice },
    { path: estimatorPaths.isRunning, value: { keep: "", on: "1", off: "0" }[runEstimation] },
  ].filter(({ value }) => value !== "");
}
