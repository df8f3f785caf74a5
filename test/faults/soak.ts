/**
 * `make soak`: 2,000 Services, constant churn and random faults for an hour. Faults come from the API server, netlink,
 * the machine, and third parties that change the kernel state. None of them ends the process, because growth could not
 * be seen across restarts. Each step ends with a sample of the program's memory, files, sockets, timers and event-loop delay.
 * Exit status 1: a figure grew, a connection broke, or the kernel state differed from the plan.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { firstSeed, seededRandom } from "../support/seeds.ts";
import { underFaults } from "./netlink-fault.ts";
import { apiServer } from "./rows/api-server.ts";
import { netlink } from "./rows/netlink.ts";
import { processRows } from "./rows/process.ts";
import { intrude, intrusions, trackConnections } from "./soak-drift.ts";
import { findGrowth, growthLine, type Sample, sampleTable, takeSample } from "./soak-samples.ts";
import { World } from "./world.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    services: { type: "string", default: "2000" },
  },
});
const random = seededRandom(firstSeed);
const soakMs = Number(values.minutes) * 60_000;
const serviceCount = Number(values.services);
const probeFile = "/run/faults/probe.json";
const probe = join(import.meta.dirname, "soak-probe.cjs");
const stepsPerFault = 3;
const shownSamples = 30;
const minuteMs = 60_000;

interface Fault {
  readonly name: string;
  readonly inject: (world: World) => unknown;
}

/** Only machine faults that need no preparation. */
const machine: readonly string[] = ["Event loop blocked", "Out of file descriptors"];
const rows = [
  ...apiServer,
  ...netlink,
  ...processRows.filter(({ name }) => machine.includes(name)),
];
const faults: readonly Fault[] = [
  ...rows.map(({ name, inject }) => ({
    name,
    inject: (world: World) => inject(world, { form: "short", index: 0 }),
  })),
  ...intrusions.map((intrusion) => ({
    name: intrusion.name,
    inject: () => intrude(intrusion, Math.floor(random() * serviceCount)),
  })),
];

const problems: string[] = [];
const samples: Sample[] = [];
const totals = { steps: 0, faults: 0, short: 0, failed: 0, broken: 0, slowestRepairMs: 0 };

console.error(`Seed: ${firstSeed}`);
const world = await World.build(serviceCount);
try {
  await soak();
} catch (error) {
  problems.push(`step ${totals.steps}: ${String(error)}`);
}
problems.push(...findGrowth(samples));
const every = Math.max(1, Math.ceil(samples.length / shownSamples));
console.log(sampleTable(samples.filter((_, index) => index % every === 0)).join("\n"));
console.log(growthLine(samples));
console.log(JSON.stringify(totals));
for (const problem of problems) console.error(problem);
await world.close();
process.exitCode = problems.length === 0 ? 0 : 1;

async function soak(): Promise<void> {
  const environment = {
    NODE_OPTIONS: `--require ${probe}`,
    SOAK_PROBE: probeFile,
    ...underFaults.environment,
  };
  trackConnections();
  await world.restartProgram({ environment });
  await world.trafficFlows();
  const faultsToCome = shuffled();
  const beginMs = performance.now();
  for (let elapsedMs = 0; elapsedMs < soakMs; elapsedMs = performance.now() - beginMs) {
    const name = await step(faultsToCome);
    samples.push(takeSample(world.program.pid, probeFile, elapsedMs / minuteMs));
    await countTraffic(name);
  }
}

/** Churn, and sometimes a fault. Afterwards the kernel state must equal the plan. Returns the fault's name. */
async function step(faultsToCome: Iterator<Fault, never>): Promise<string> {
  totals.steps += 1;
  await world.churn();
  let name = "no fault";
  if (totals.steps % stepsPerFault === 0) {
    const fault = faultsToCome.next().value;
    totals.faults += 1;
    name = fault.name;
    await fault.inject(world);
  }
  const repairMs = await world.repaired();
  totals.slowestRepairMs = Math.max(totals.slowestRepairMs, Math.round(repairMs));
  console.error(`${new Date().toISOString()} ${totals.steps} ${name}: ${repairMs.toFixed(0)} ms`);
  return name;
}

async function countTraffic(name: string): Promise<void> {
  const { short, failed, broken, reasons } = await world.traffic.take();
  if (failed + broken > 0) {
    problems.push(`step ${totals.steps}, ${name}: ${JSON.stringify(reasons)}`);
  }
  totals.short += short;
  totals.failed += failed;
  totals.broken += broken;
}

/** All faults in random order, repeatedly. None occurs so often that its repair would back off. */
function* shuffled(): Generator<Fault, never> {
  for (;;) {
    const places = faults.map((fault) => ({ fault, place: random() }));
    for (const { fault } of places.toSorted((one, other) => one.place - other.place)) yield fault;
  }
}
