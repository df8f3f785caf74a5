/**
 * Runs all scenarios with all faults and prints the exposed runs: `node test/support/exposure/list-exposed-runs.ts`.
 */
import { iptablesMode, ipvsMode } from "./programs.ts";
import { playWithFaults } from "./run.ts";
import { scenariosOf } from "./scenarios.ts";

for (const mode of [ipvsMode, iptablesMode]) {
  const counts = { runs: 0, exposed: 0, "left open": 0 };
  for (const scenario of scenariosOf(mode)) {
    for await (const { name, run } of playWithFaults(scenario, 1, mode)) {
      const kinds = [...new Set(run.exposures.map(({ kind }) => kind))].toSorted();
      counts.runs += 1;
      if (kinds.length === 0) continue;
      console.log(`${name} | ${kinds.join(", ")}`);
      counts.exposed += 1;
      if (kinds.includes("left open")) counts["left open"] += 1;
    }
  }
  console.log(mode.name, counts);
}
