import { parseSchedulerFlags } from "../base/scheduler.ts";
import type { Report } from "./build-config.ts";
import type { TuningConfig } from "./config.ts";
import type { Settings } from "./fields.ts";

/** What counts for Services whose annotations say nothing else. */
export function buildTuning(settings: Settings, report: Report): TuningConfig {
  return {
    ...schedulerFlags(settings, report),
    isOnePacket: settings["kubeIpvs.onePacket"],
    connectionLimit: { upper: settings["kubeIpvs.maxConnections"], lower: 0 },
    weights: weightSource(settings["kubeIpvs.weights"]),
    slowStartMs: settings["kubeIpvs.slowStart"],
  };
}

function weightSource(word: string): TuningConfig["weights"] {
  return word === "node" || word === "slice" ? word : "equal";
}

/** Those of another scheduler than the one set count where a Service asks for it. */
function schedulerFlags(settings: Settings, report: Report): Pick<TuningConfig, "schedulerFlags"> {
  const text = settings["kubeIpvs.schedulerFlags"];
  if (text === "") return {};
  const flags = parseSchedulerFlags(text);
  if (flags !== undefined) return { schedulerFlags: flags };
  const reason = "must be none, or a list of sh-port, sh-fallback, mh-port and mh-fallback";
  report("kubeIpvs.schedulerFlags", text, reason);
  return {};
}
