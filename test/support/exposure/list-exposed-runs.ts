/** Plays everything and writes the list anew: `node test/support/exposure/list-exposed-runs.ts`. */
import { kindsText, writeExposedRuns } from "./exposed-runs.ts";
import { iptablesMode, ipvsMode } from "./programs.ts";
import { playWithFaults } from "./run.ts";
import { scenariosOf } from "./scenarios.ts";

const exposed = new Map<string, string>();
for (const mode of [ipvsMode, iptablesMode]) {
  const counts = { runs: 0, exposed: 0, "left open": 0 };
  for (const scenario of scenariosOf(mode)) {
    for await (const { name, run } of playWithFaults(scenario, 1, mode)) {
      const kinds = kindsText(run.exposures);
      counts.runs += 1;
      if (kinds === "") continue;
      exposed.set(name, kinds);
      counts.exposed += 1;
      if (kinds.includes("left open")) counts["left open"] += 1;
    }
  }
  console.log(mode.name, counts);
}
writeExposedRuns(exposed);
