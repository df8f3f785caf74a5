/** The scenarios of mode iptables: the same form as those of mode ipvs, in a folder of their own. See README.md. */
import { join } from "node:path";
import {
  listScenarios as listScenariosIn,
  readScenario as readScenarioIn,
  type Scenario,
} from "../golden/scenario.ts";

const folder = join(import.meta.dirname, "scenarios");

export function listScenarios(): readonly string[] {
  return listScenariosIn(folder);
}

export function readScenario(name: string): Scenario {
  return readScenarioIn(name, folder);
}
