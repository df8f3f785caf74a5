/** Many changes at the same time: a rolling update in a cluster with idle Services, and a burst of new Services. */
import { setTimeout as pause } from "node:timers/promises";
import type { ApiServer } from "../../support/api-server/api-server.ts";
import { clusterIpOf, positions } from "../../support/many-services.ts";
import { type Case, type CaseContext, type CaseOutcome, megabytes, withMachine } from "../case.ts";
import { clusterOf, serviceOf, sizeText, slicesOf, tableLines } from "../cluster.ts";
import { loopDelays, loopProbe } from "../loop-delay.ts";
import type { Machine } from "../machine.ts";
import { ourCommand, quietFlags, Subject } from "../subject.ts";

const idle = { services: 5_000, endpoints: 5 };
const rolling = { index: idle.services, endpoints: 250, perStep: 10, stepMs: 200 };
const present = { services: 1_000, endpoints: 5 };
const burst = { services: 2_000, endpoints: 5, slots: 40, slotMs: 25 };
const servicePort = 80;

export const busyNodeCases: readonly Case[] = [
  {
    name: "rolling",
    title: `Rolling update of ${rolling.endpoints} endpoints with ${sizeText(idle)} idle`,
    expectedSeconds: 30,
    run: (context) => runRolling(context),
  },
  {
    name: "burst",
    title: `${burst.services.toLocaleString("en")} Services created in one second with ${sizeText(present)} present`,
    expectedSeconds: 20,
    run: (context) => runBurst(context),
  },
];

/** Positions 0 to 249 at first. Each step replaces ten of them with positions that are 250 higher. */
function rolledPositions(step: number): readonly number[] {
  const replaced = step * rolling.perStep;
  return positions(rolling.endpoints).map((position) =>
    position < replaced ? position + rolling.endpoints : position,
  );
}

function runRolling(context: CaseContext): Promise<CaseOutcome> {
  context.step("booting");
  const rolled = [serviceOf(rolling.index), ...slicesOf(rolling.index, rolledPositions(0))];
  const objects = [...clusterOf(idle), ...rolled];
  return withMachine({ objects }, async (machine, server) => {
    const probe = loopProbe("/run/bench-loop");
    const subject = await Subject.start(
      machine,
      ourCommand(server.url, quietFlags, probe.environment),
    );
    context.step("first sync");
    await subject.hasSynced();
    await subject.becomesIdle();
    const [changes, forks] = [await subject.changes(), await machine.ask("forkCount", {})];
    // A metrics request makes the program render its metrics, which is not part of the update.
    await pause(1_000);
    const [syncs, delays] = [await subject.syncTimesMs(), await loopDelays(machine, probe)];
    const steps = rolling.endpoints / rolling.perStep;
    for (let step = 1; step <= steps; step++) {
      context.step(`rolling update, step ${step} of ${steps}`);
      server.apply(...slicesOf(rolling.index, rolledPositions(step)));
      await pause(rolling.stepMs);
    }
    await machine.hasServers(clusterIpOf(rolling.index), servicePort, rolling.endpoints);
    await pause(1_000);
    const syncTimes = (await subject.syncTimesMs()).slice(syncs.length);
    const blocked = (await loopDelays(machine, probe)).slice(delays.length);
    const messages = (await subject.changes()) - changes;
    const processes = (await machine.ask("forkCount", {})) - forks;
    return {
      rows: [
        {
          subject: "kube-ipvs",
          what: "longest sync, according to its log",
          kind: "figure",
          unit: "ms",
          value: Math.max(0, ...syncTimes),
          samples: syncTimes,
          target: { text: "≤ 50 ms", most: 50 },
          messages,
          processes,
          residentMb: megabytes((await subject.figures()).residentKb),
        },
        {
          subject: "kube-ipvs",
          what: "longest event-loop block",
          kind: "figure",
          unit: "ms",
          value: Math.max(0, ...blocked),
          samples: blocked,
          target: { text: "≤ 20 ms", most: 20 },
        },
        {
          subject: "kube-ipvs",
          what: "processes started",
          kind: "count",
          unit: "",
          value: processes,
          target: { text: "0", most: 0 },
        },
      ],
    };
  });
}

function runBurst(context: CaseContext): Promise<CaseOutcome> {
  context.step("booting");
  return withMachine({ objects: clusterOf(present) }, async (machine, server) => {
    const subject = await Subject.start(machine, ourCommand(server.url, quietFlags));
    context.step("first sync");
    await subject.hasSynced();
    await machine.hasLines(tableLines(present));
    await subject.becomesIdle();
    const [changes, cpuMs] = [await subject.changes(), (await subject.figures()).cpuMs];
    context.step("the burst");
    const burstMs = await makeBurst(server);
    const beganMs = performance.now();
    await machine.hasLines(tableLines(present) + tableLines(burst));
    const elapsedMs = performance.now() - beganMs;
    await pause(2_000);
    const { residentKb, cpuMs: cpuAfterMs } = await subject.figures();
    const missing = await countMissing(machine, present.services + burst.services);
    return {
      rows: [
        {
          subject: "kube-ipvs",
          what: "from the last event until all virtual servers are in the kernel",
          kind: "figure",
          unit: "ms",
          value: elapsedMs,
          target: { text: "≤ 2 s", most: 2_000 },
          messages: (await subject.changes()) - changes,
          residentMb: megabytes(residentKb),
        },
        {
          subject: "kube-ipvs",
          what: "kernel objects missing at the end",
          kind: "count",
          unit: "",
          value: missing,
          target: { text: "0", most: 0 },
        },
        {
          subject: "API server",
          what: "from the first to the last event",
          kind: "figure",
          unit: "ms",
          value: burstMs,
        },
        {
          subject: "kube-ipvs",
          what: "CPU for the burst",
          kind: "figure",
          unit: "ms",
          value: cpuAfterMs - cpuMs,
        },
      ],
    };
  });
}

/** Creates Services evenly over a second, and returns the duration in milliseconds. */
async function makeBurst(server: ApiServer): Promise<number> {
  const perSlot = burst.services / burst.slots;
  const endpoints = positions(burst.endpoints);
  const beganMs = performance.now();
  for (let slot = 0; slot < burst.slots; slot++) {
    const first = present.services + slot * perSlot;
    server.apply(
      ...positions(perSlot).flatMap((offset) => [
        serviceOf(first + offset),
        ...slicesOf(first + offset, endpoints),
      ]),
    );
    await pause(Math.max(0, beganMs + (slot + 1) * burst.slotMs - performance.now()));
  }
  return performance.now() - beganMs;
}

async function countMissing(machine: Machine, services: number): Promise<number> {
  const { stdout } = await machine.script(`
    ipvsadm -Sn | grep -c ^-A
    ipvsadm -Sn | grep -c ^-a
    ipset list -t KUBE-CLUSTER-IP | sed -n 's/^Number of entries: //p'
    ip -o -4 addr show dev kube-ipvs0 | wc -l
  `);
  const wanted = [services, services * present.endpoints, services, services];
  const found = stdout.trim().split("\n").map(Number);
  return wanted.reduce((total, count, at) => total + Math.abs(count - (found[at] ?? 0)), 0);
}
