/**
 * `make soak`: 2,000 Services, constant churn, random faults, for an hour. Every few seconds memory, files, sockets,
 * timers and event-loop delay of the program are sampled. Exit status 1: something grew, a connection broke, or
 * the kernel was not as planned.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Row } from "./row.ts";
import { apiServer } from "./rows/api-server.ts";
import { findGrowth, type Sample, sampleTable, takeSample } from "./soak-samples.ts";
import { World } from "./world.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    services: { type: "string", default: "2000" },
  },
});
const soakMs = Number(values.minutes) * 60_000;
const probeFile = "/run/faults/probe.json";
const probe = join(import.meta.dirname, "soak-probe.cjs");
const library = join(import.meta.dirname, "../../build/test/netlink-fault.so");
const shownSamples = 30;

/** Those that leave the process alive, or else nothing could grow. */
const faults: readonly Row[] = apiServer;

const world = await World.build(Number(values.services));
const environment = {
  NODE_OPTIONS: `--require ${probe}`,
  SOAK_PROBE: probeFile,
  LD_PRELOAD: library,
};
await world.restartProgram({ environment });
await world.trafficFlows();

const problems: string[] = [];
const samples: Sample[] = [];
const totals = { steps: 0, faults: 0, short: 0, failed: 0, broken: 0 };
const beginMs = performance.now();
while (performance.now() - beginMs < soakMs) {
  await world.churn();
  totals.steps += 1;
  if (totals.steps % 5 === 0) await doFault();
  await world.repaired();
  samples.push(takeSample(world.program.pid, probeFile, (performance.now() - beginMs) / 60_000));
  const { short, failed, broken, reasons } = await world.traffic.take();
  if (failed + broken > 0) problems.push(`step ${totals.steps}: ${JSON.stringify(reasons)}`);
  totals.short += short;
  totals.failed += failed;
  totals.broken += broken;
}
problems.push(...findGrowth(samples));
const every = Math.max(1, Math.ceil(samples.length / shownSamples));
console.log(sampleTable(samples.filter((_, index) => index % every === 0)).join("\n"));
console.log(JSON.stringify(totals));
for (const problem of problems) console.error(problem);
await world.close();
process.exitCode = problems.length === 0 ? 0 : 1;

async function doFault(): Promise<void> {
  const fault = faults[Math.floor(Math.random() * faults.length)];
  if (fault === undefined) return;
  totals.faults += 1;
  try {
    await fault.inject(world, { form: "short", index: totals.faults });
  } catch (error) {
    problems.push(`${fault.name}: ${String(error)}`);
  }
}
