/**
 * A Service with a range of 1,000 UDP ports, and one with 1,000 single ports. Both are measured alternately in the same
 * run, each in a new lab kernel.
 */
import { setTimeout as pause } from "node:timers/promises";
import { positions } from "../../support/many-services.ts";
import { type ApiObject, endpoint, endpointSlice, node, service } from "../../support/objects.ts";
import { type Case, type CaseContext, type CaseOutcome, megabytes, withMachine } from "../case.ts";
import { endpointAddress } from "../cluster.ts";
import { type Figure, roundRows } from "../rows.ts";
import { objectsRead, ourCommand, quietFlags, Subject } from "../subject.ts";
import { watchFirstSync } from "./first-sync.ts";

const rounds = Number(process.env["BENCH_ROUNDS"] ?? 5);
const endpoints = 5;
const changes = 10;
const firstPort = 10_000;
const portCount = 1_000;
/** The maximum in one EndpointSlice. */
const portsPerSlice = 100;
const changeTimeoutMs = 60_000;

const ways = ["range", "single ports"] as const;
type Way = (typeof ways)[number];

export const portRangeCases: readonly Case[] = [
  {
    name: "port-ranges",
    title: `A range of ${portCount.toLocaleString("en")} UDP ports, and as many single ports`,
    expectedSeconds: 200,
    run,
  },
];

async function run(context: CaseContext): Promise<CaseOutcome> {
  const measured = new Map<Way, (readonly Figure[])[]>(ways.map((way) => [way, []]));
  for (let round = 1; round <= rounds; round += 1) {
    for (const [way, figures] of measured) {
      context.step(`round ${round} of ${rounds}: ${way}`);
      figures.push(await measure(way));
    }
    context.keep(roundRows(measured, "single ports"));
  }
  return { rows: roundRows(measured, "single ports") };
}

function portsOf(way: Way): readonly number[] {
  return positions(way === "range" ? 1 : portCount).map((offset) => firstPort + offset);
}

function serviceOf(way: Way): ApiObject {
  const range = { "kube-ipvs.io/port-range": `${firstPort}-${firstPort + portCount - 1}` };
  return service({
    ...{ name: "voice", clusterIps: ["10.96.0.10"] },
    metadata: { annotations: way === "range" ? range : {} },
    ports: portsOf(way).map((port) => ({ name: `udp-${port}`, protocol: "UDP", port })),
  });
}

function slicesOf(way: Way, count: number): readonly ApiObject[] {
  const ports = portsOf(way);
  return positions(Math.ceil(ports.length / portsPerSlice)).map((part) =>
    endpointSlice({
      ...{ name: `voice-${part}`, service: "voice" },
      endpoints: positions(count).map((position) =>
        endpoint(endpointAddress(0, position), { nodeName: "node-2" }),
      ),
      ports: ports
        .slice(part * portsPerSlice, (part + 1) * portsPerSlice)
        .map((port) => ({ name: `udp-${port}`, protocol: "UDP", port })),
    }),
  );
}

function measure(way: Way): Promise<readonly Figure[]> {
  const objects = [node(), serviceOf(way), ...slicesOf(way, endpoints)];
  return withMachine({ objects }, async (machine, server) => {
    const flags = [...quietFlags, "--kube-ipvs-port-range-marks=0x3fff0000"];
    const subject = await Subject.start(machine, ourCommand(server.url, flags));
    const first = await watchFirstSync(subject, () => objectsRead(server));
    await subject.becomesIdle();
    const began = await subject.figures();
    const [messagesBefore, syncsBefore] = [first.messages, (await subject.syncTimesMs()).length];
    for (let turn = 1; turn <= changes; turn += 1) {
      server.apply(...slicesOf(way, endpoints + turn));
      await hasChanges(subject, messagesBefore + turn * portsOf(way).length);
    }
    const ended = await subject.figures();
    const messages = ((await subject.changes()) - messagesBefore) / changes;
    const syncs = (await subject.syncTimesMs()).slice(syncsBefore);
    const syncsMs = syncs.reduce((sum, ms) => sum + ms, 0);
    await subject.end();
    return [
      { what: "first sync", unit: "ms", value: first.elapsedMs, messages: first.messages },
      {
        what: "time of the syncs for a new endpoint",
        unit: "ms",
        value: syncsMs / changes,
        messages,
      },
      { what: "CPU per new endpoint", unit: "ms", value: (ended.cpuMs - began.cpuMs) / changes },
      { what: "anonymous memory", unit: "MB", value: megabytes(ended.anonymousKb) },
    ];
  });
}

async function hasChanges(subject: Subject, wanted: number): Promise<void> {
  const deadlineMs = performance.now() + changeTimeoutMs;
  while ((await subject.changes()) < wanted) {
    if (performance.now() > deadlineMs) throw new Error(`Timed out before ${wanted} changes`);
    await pause(100);
  }
}
