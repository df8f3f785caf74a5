/** The scenarios with kube-proxy's recorded states in iptables mode. See README.md. */
import { join } from "node:path";
import {
  listScenarios as listScenariosIn,
  readScenario as readScenarioIn,
  type Scenario,
} from "../golden/scenario.ts";

const states = join(import.meta.dirname, "states");

export function listScenarios(): readonly string[] {
  return listScenariosIn(states);
}

export function readScenario(name: string): Scenario {
  const { config, ...scenario } = readScenarioIn(name, states);
  const iptables = { minSyncPeriod: "0s", syncPeriod: "8s", ...fieldsOf(config["iptables"]) };
  return { ...scenario, config: { ...config, mode: "iptables", iptables } };
}

function fieldsOf(value: unknown): object {
  return typeof value === "object" && value !== null ? value : {};
}
