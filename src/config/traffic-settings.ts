/** Settings of what the kernel counts, and of what /metrics shows of it. */
import type { Report } from "./build-config.ts";
import type { Config } from "./config.ts";
import type { Settings } from "./fields.ts";

export function traffic(
  settings: Settings,
  report: Report,
): Pick<Config, "estimator" | "trafficMetrics"> {
  return { estimator: estimator(settings, report), ...trafficMetrics(settings) };
}

function trafficMetrics(settings: Settings): Pick<Config, "trafficMetrics"> {
  const kind = settings["kubeIpvs.trafficMetrics"];
  if (kind !== "service" && kind !== "endpoint") return {};
  const limit = settings["kubeIpvs.trafficMetricsLimit"];
  return { trafficMetrics: { hasEndpoints: kind === "endpoint", limit } };
}

function estimator(settings: Settings, report: Report): Config["estimator"] {
  const run = settings["kubeIpvs.runEstimation"];
  const cpuList = settings["kubeIpvs.estimatorCpus"];
  const nice = settings["kubeIpvs.estimatorNice"];
  if (cpuList !== "" && !/^\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?)*$/.test(cpuList)) {
    report("kubeIpvs.estimatorCpus", cpuList, "must be a list of processors such as 0-3,8");
  }
  if (nice !== "" && !/^(?:-?1?\d|-20)$/.test(nice)) {
    report("kubeIpvs.estimatorNice", nice, "must be a whole number from -20 to 19");
  }
  return {
    ...(run === "keep" ? {} : { isRunning: run === "on" }),
    ...(cpuList === "" ? {} : { cpuList }),
    ...(nice === "" ? {} : { nice: Number(nice) }),
  };
}
