/** Plays everything and writes the list anew: `node test/support/exposure/list-exposed-runs.ts`. */
import { kindsText, writeExposedRuns } from "./exposed-runs.ts";
import { playWithFaults } from "./run.ts";
import { scenarios } from "./scenarios.ts";

const exposed = new Map<string, string>();
const counts = { runs: 0, exposed: 0, "left open": 0 };
for (const scenario of scenarios) {
  for await (const { name, run } of playWithFaults(scenario)) {
    const kinds = kindsText(run.exposures);
    counts.runs += 1;
    if (kinds === "") continue;
    exposed.set(name, kinds);
    counts.exposed += 1;
    if (kinds.includes("left open")) counts["left open"] += 1;
  }
}
writeExposedRuns(exposed);
console.log(counts);
