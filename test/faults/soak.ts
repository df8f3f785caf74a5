/**
 * `make soak`: 2,000 Services, constant churn and random faults for an hour. Faults come from the API server, netlink,
 * the machine, and third parties that change the kernel state. None of them ends the process, because growth could not
 * be seen across restarts. Each step ends with a sample of the program's memory, files, sockets, timers, event-loop delay
 * and drift. Standard output has all samples as they are taken, separated by tabs. Standard error has some of them.
 * Exit status 1: a figure grew, a connection broke, or the kernel state differed from the plan.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { firstSeed, seededRandom } from "../support/seeds.ts";
import { FaultyNode } from "./faulty-node.ts";
import { underFaults } from "./netlink-fault.ts";
import { apiServer } from "./rows/api-server.ts";
import { netlink } from "./rows/netlink.ts";
import { processRows } from "./rows/process.ts";
import { intrude, intrusions, trackConnections } from "./soak-drift.ts";
import {
  aligned,
  cellsOf,
  findGrowth,
  growthLine,
  type Sample,
  takeSample,
  titles,
} from "./soak-samples.ts";

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
  readonly inject: (node: FaultyNode) => unknown;
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
    inject: (node: FaultyNode) => inject(node, { form: "short", index: 0 }),
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
const node = await FaultyNode.build(serviceCount);
try {
  await soak();
} catch (error) {
  problems.push(`step ${totals.steps}: ${String(error)}`);
}
problems.push(...findGrowth(samples));
console.error(growthLine(samples));
console.error(JSON.stringify(totals));
for (const problem of problems) console.error(problem);
await node.close();
process.exitCode = problems.length === 0 ? 0 : 1;

async function soak(): Promise<void> {
  const environment = {
    NODE_OPTIONS: `--require ${probe}`,
    SOAK_PROBE: probeFile,
    ...underFaults.environment,
  };
  trackConnections();
  await node.restartProgram({ environment });
  await node.trafficFlows();
  const faultsToCome = shuffled();
  console.log(titles.join("\t"));
  console.error(aligned(titles));
  const beginMs = performance.now();
  for (let elapsedMs = 0; elapsedMs < soakMs; elapsedMs = performance.now() - beginMs) {
    const done = await step(faultsToCome);
    const taken = takeSample(node.program.pid, probeFile);
    const drifts = await node.metric("kube_ipvs_drift_total{");
    noteSample({ ...taken, ...done, drifts, minute: elapsedMs / minuteMs });
    await countTraffic(done.fault);
  }
}

/** Writes a sample, and shows the first one in each of {@link shownSamples} equal parts of the time. */
function noteSample(sample: Sample): void {
  const partOf = ({ minute }: Sample): number =>
    Math.floor((minute * minuteMs * shownSamples) / soakMs);
  const last = samples.at(-1);
  console.log(cellsOf(sample).join("\t"));
  if (last === undefined || partOf(sample) > partOf(last)) console.error(aligned(cellsOf(sample)));
  samples.push(sample);
}

/** Churn, and sometimes a fault. Afterwards the kernel state must equal the plan. */
async function step(
  faultsToCome: Iterator<Fault, never>,
): Promise<Pick<Sample, "fault" | "repairMs">> {
  totals.steps += 1;
  await node.churn();
  let name = "no fault";
  if (totals.steps % stepsPerFault === 0) {
    const fault = faultsToCome.next().value;
    totals.faults += 1;
    name = fault.name;
    await fault.inject(node);
  }
  const repairMs = await node.repaired();
  totals.slowestRepairMs = Math.max(totals.slowestRepairMs, Math.round(repairMs));
  return { fault: name, repairMs };
}

async function countTraffic(name: string): Promise<void> {
  const { short, failed, broken, reasons } = await node.traffic.take();
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
