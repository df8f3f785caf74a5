/** Nodes without changes: a restart and periodic verification of 10,000 × 10, and an idle daemon with 1,000 × 5. */
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type Case, type CaseContext, type CaseOutcome, megabytes, withMachine } from "../case.ts";
import { clusterOf, sizeText, tableLines } from "../cluster.ts";
import { loopDelays, loopProbe } from "../loop-delay.ts";
import type { Machine } from "../machine.ts";
import type { Row } from "../rows.ts";
import { ourCommand, quietFlags, Subject } from "../subject.ts";
import { verificationsReach } from "../verification.ts";

const size = { services: 10_000, endpoints: 10 };
const script: string = join(import.meta.dirname, "../baseline.ts");
const periodSeconds = 30;
const watchedPeriods = 2;
const idleSize = { services: 1_000, endpoints: 5 };
const idlePeriods = 6;

export const largeNodeCases: readonly Case[] = [
  {
    name: "restart",
    title: `Restart, full kernel, nothing changed, ${sizeText(size)}`,
    expectedSeconds: 60,
    run: (context) => runRestart(context),
  },
  {
    name: "verification",
    title: `Periodic verification every ${periodSeconds} s, ${sizeText(size)}`,
    expectedSeconds: 190,
    run: (context) => runVerification(context),
  },
  {
    name: "idle",
    title: `Idle daemon, default settings, ${sizeText(idleSize)}`,
    expectedSeconds: 250,
    run: (context) => runIdle(context),
  },
];

function runRestart(context: CaseContext): Promise<CaseOutcome> {
  context.step("booting");
  return withMachine({ objects: clusterOf(size) }, async (machine, server) => {
    const command = ourCommand(server.url, quietFlags);
    context.step("first sync");
    const first = await Subject.start(machine, command);
    await first.hasSynced();
    await machine.hasLines(tableLines(size));
    await first.end();
    const baselinesMs: number[] = [];
    const restartsMs: number[] = [];
    let [writes, peakMb] = [0, 0];
    for (let turn = 0; turn < 3; turn++) {
      context.step(`listing and reading once, run ${turn + 1} of 3`);
      baselinesMs.push((await machine.run([process.execPath, script, server.url])).elapsedMs);
      context.step(`restart ${turn + 1} of 3`);
      const beganMs = performance.now();
      const subject = await Subject.start(machine, command);
      await subject.hasSynced();
      restartsMs.push(performance.now() - beganMs);
      writes += await subject.changes();
      peakMb = Math.max(peakMb, megabytes((await subject.figures()).peakKb));
      await subject.end();
    }
    return { rows: restartRows({ baselinesMs, restartsMs, writes, peakMb }) };
  });
}

function restartRows(measured: {
  readonly baselinesMs: readonly number[];
  readonly restartsMs: readonly number[];
  readonly writes: number;
  readonly peakMb: number;
}): readonly Row[] {
  const { baselinesMs, restartsMs, writes, peakMb } = measured;
  const middle = (samples: readonly number[]): number => samples.toSorted((a, b) => a - b)[1] ?? 0;
  const baselineMs = middle(baselinesMs);
  return [
    {
      subject: "kube-ipvs",
      what: "writes of three restarts",
      kind: "count",
      unit: "",
      value: writes,
      target: { text: "0", most: 0 },
    },
    {
      subject: "kube-ipvs",
      what: "from process start until ready",
      kind: "figure",
      unit: "ms",
      value: middle(restartsMs),
      samples: restartsMs,
      target: { text: "≤ 1.5 × listing and reading", most: 1.5 * baselineMs },
      messages: writes,
      residentMb: peakMb,
    },
    {
      subject: "baseline",
      what: "a Node.js program that lists the objects and reads the kernel once",
      kind: "figure",
      unit: "ms",
      value: baselineMs,
      samples: baselinesMs,
    },
  ];
}

function runVerification(context: CaseContext): Promise<CaseOutcome> {
  context.step("booting");
  return withMachine({ objects: clusterOf(size) }, async (machine, server) => {
    context.step("first sync");
    const subject = await Subject.start(machine, ourCommand(server.url));
    const firstCpuMs = await reachFirstVerification(subject, context);
    const before = await subject.figures();
    const [changes, forks] = [await subject.changes(), await machine.ask("forkCount", {})];
    await watch(context, watchedPeriods);
    const after = await subject.figures();
    const writes = (await subject.changes()) - changes;
    const processes = (await machine.ask("forkCount", {})) - forks;
    await subject.end();
    const delays = await verificationDelays(machine, server.url, context);
    return {
      rows: [
        {
          subject: "kube-ipvs",
          what: "share of one CPU, all periodic checks enabled",
          kind: "figure",
          unit: "%",
          value: (after.cpuMs - before.cpuMs) / (periodSeconds * watchedPeriods * 10),
          target: { text: "< 2%", most: 2 },
          messages: writes,
          processes,
          residentMb: megabytes(after.residentKb),
        },
        {
          subject: "kube-ipvs",
          what: "CPU until the end of the first verification, which compares everything",
          kind: "figure",
          unit: "ms",
          value: firstCpuMs,
        },
        {
          subject: "kube-ipvs",
          what: "writes by verification without changes",
          kind: "count",
          unit: "",
          value: writes,
          target: { text: "0", most: 0 },
        },
        {
          subject: "kube-ipvs",
          what: "longest event-loop block",
          kind: "figure",
          unit: "ms",
          value: Math.max(0, ...delays),
          samples: delays,
          target: { text: "≤ 20 ms", most: 20 },
        },
      ],
    };
  });
}

function runIdle(context: CaseContext): Promise<CaseOutcome> {
  context.step("booting");
  return withMachine({ objects: clusterOf(idleSize) }, async (machine, server) => {
    context.step("first sync");
    const subject = await Subject.start(machine, ourCommand(server.url));
    await reachFirstVerification(subject, context);
    const before = await subject.figures();
    await watch(context, idlePeriods);
    const after = await subject.figures();
    await subject.end();
    const shared = { subject: "kube-ipvs", kind: "figure" } as const;
    return {
      rows: [
        {
          ...shared,
          what: "share of one CPU",
          unit: "%",
          value: (after.cpuMs - before.cpuMs) / (periodSeconds * idlePeriods * 10),
          target: { text: "≤ 0.5%", most: 0.5 },
        },
        {
          ...shared,
          what: "resident memory",
          unit: "MB",
          value: megabytes(after.residentKb),
          target: { text: "≤ 85 MB", most: 85 },
        },
      ],
    };
  });
}

/**
 * Runs the daemon as an operator would, with every periodic check. Returns the CPU time from the end of the first sync
 * to the first verification.
 */
async function reachFirstVerification(subject: Subject, context: CaseContext): Promise<number> {
  await subject.hasSynced();
  const { cpuMs } = await subject.figures();
  context.step("the first verification, which compares everything");
  await verificationsReach(subject, 1);
  return (await subject.figures()).cpuMs - cpuMs;
}

async function watch(context: CaseContext, periods: number): Promise<void> {
  for (let second = 0; second < periodSeconds * periods; second += 5) {
    context.step(`idle, ${second} of ${periodSeconds * periods} s`);
    await pause(5_000);
  }
}

/** Uses a separate process, because the event-loop probe itself uses CPU time. */
async function verificationDelays(
  machine: Machine,
  master: string,
  context: CaseContext,
): Promise<readonly number[]> {
  const probe = loopProbe("/run/bench-loop");
  context.step("restart with an event-loop probe");
  const subject = await Subject.start(machine, ourCommand(master, [], probe.environment));
  await reachFirstVerification(subject, context);
  const before = await loopDelays(machine, probe);
  // Measures two periods, because a single one may end outside the measurement.
  await watch(context, 2);
  const delays = (await loopDelays(machine, probe)).slice(before.length);
  await subject.end();
  return delays;
}
