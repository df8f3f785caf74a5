/** Resident memory, the peak included: idle, with clusters of three sizes, and after ten thousand changes. */
import { setTimeout as pause } from "node:timers/promises";
import type { ApiServer } from "../../support/api-server/api-server.ts";
import { clusterIpOf, positions } from "../../support/many-services.ts";
import { node } from "../../support/objects.ts";
import { type Case, type CaseContext, type CaseOutcome, megabytes, withMachine } from "../case.ts";
import { type ClusterSize, clusterOf, sizeText, slicesOf, tableLines } from "../cluster.ts";
import type { Machine } from "../machine.ts";
import type { Row } from "../rows.ts";
import { ourCommand, Subject } from "../subject.ts";

interface Plan extends ClusterSize {
  readonly mostMb: number;
  readonly expectedSeconds: number;
}

const plans: readonly Plan[] = [
  { services: 5_000, endpoints: 5, mostMb: 105, expectedSeconds: 50 },
  { services: 10_000, endpoints: 10, mostMb: 140, expectedSeconds: 70 },
  { services: 5_000, endpoints: 50, mostMb: 220, expectedSeconds: 80 },
];
const changes = 10_000;
const changesAtOnce = 20;
/** More than this over the second half of the changes is a leak. */
const flatMb = 5;
const servicePort = 80;
/** As an operator runs it, but for more frequent verifications: the peak must hold one. */
const flags = ["--kube-ipvs-verification-period=10s"];
const verificationsMs = 15_000;

export const memoryCases: readonly Case[] = [
  {
    name: "memory-idle",
    title: "Resident memory, idle",
    expectedSeconds: 30,
    run: (context) => runIdle(context),
  },
  ...plans.map((plan) => ({
    name: `memory-${plan.services}x${plan.endpoints}`,
    title: `Resident memory, ${sizeText(plan)}`,
    expectedSeconds: plan.expectedSeconds,
    run: (context: CaseContext) => runFull(plan, context),
  })),
];

function runIdle(context: CaseContext): Promise<CaseOutcome> {
  context.step("booting");
  return withMachine({ objects: [node()] }, async (machine, server) => {
    const ours = ourCommand(server.url);
    context.step("idle with a cluster");
    const cluster = await idleMemory(machine, ours.argv);
    context.step("idle on manifests");
    await machine.script("mkdir /run/manifests");
    const own = ours.argv.filter((word) => !word.startsWith("--master="));
    const manifests = await idleMemory(machine, [...own, "--manifests=/run/manifests"]);
    const row = (what: string, residentMb: number, most: number): Row => ({
      ...memoryRow(what, residentMb),
      target: { text: `≤ ${most} MB`, most },
    });
    return {
      rows: [row("idle with a cluster", cluster, 85), row("idle on manifests", manifests, 60)],
    };
  });
}

/** After a while in which every periodic look had its turn. */
async function idleMemory(machine: Machine, argv: readonly string[]): Promise<number> {
  const subject = await Subject.start(machine, {
    name: "",
    argv: [...argv, ...flags],
    isOurs: true,
  });
  await subject.hasSynced();
  await pause(12_000);
  const { residentKb } = await subject.figures();
  await subject.end();
  return megabytes(residentKb);
}

function runFull(plan: Plan, context: CaseContext): Promise<CaseOutcome> {
  context.step("booting");
  return withMachine({ objects: clusterOf(plan) }, async (machine, server) => {
    const command = ourCommand(server.url, flags);
    context.step("first sync");
    const subject = await Subject.start(machine, command);
    await subject.hasSynced();
    await machine.hasLines(tableLines(plan));
    context.step("verifications");
    await pause(verificationsMs);
    const early = await subject.figures();
    const residents = await makeChanges({ machine, server, subject, plan, context });
    await pause(verificationsMs);
    const late = await subject.figures();
    await subject.end();
    context.step("restart with an API server that ignores limit");
    server.lists.ignoresLimit = true;
    const again = await Subject.start(machine, command);
    await again.hasSynced();
    await pause(verificationsMs);
    const unpaged = await again.figures();
    return { rows: rowsOf(plan, { early, late, unpaged }, residents) };
  });
}

/** Resident memory after each thousand of them. */
async function makeChanges({
  machine,
  server,
  subject,
  plan,
  context,
}: {
  readonly machine: Machine;
  readonly server: ApiServer;
  readonly subject: Subject;
  readonly plan: Plan;
  readonly context: CaseContext;
}): Promise<readonly number[]> {
  const residents: number[] = [];
  for (let done = 0; done < changes; done += changesAtOnce) {
    const round = Math.floor(done / changesAtOnce);
    const wanted = plan.endpoints + (round % 2 === 0 ? 1 : 0);
    const first = (Math.floor(round / 2) * changesAtOnce) % plan.services;
    const touched = positions(changesAtOnce).map((offset) => first + offset);
    const last = machine.hasServers(clusterIpOf(touched.at(-1) ?? 0), servicePort, wanted);
    for (const index of touched) server.apply(...slicesOf(index, positions(wanted)));
    await last;
    if ((done + changesAtOnce) % 1_000 !== 0) continue;
    context.step(`change ${done + changesAtOnce} of ${changes}`);
    residents.push(megabytes((await subject.figures()).residentKb));
  }
  return residents;
}

interface Memory {
  readonly residentKb: number;
  readonly peakKb: number;
}

function rowsOf(
  plan: Plan,
  {
    early,
    late,
    unpaged,
  }: { readonly early: Memory; readonly late: Memory; readonly unpaged: Memory },
  residents: readonly number[],
): readonly Row[] {
  const size = sizeText(plan);
  const target = { text: `≤ ${plan.mostMb} MB`, most: plan.mostMb };
  const half = residents.length / 2;
  const growth = Math.max(...residents.slice(half)) - Math.max(...residents.slice(0, half));
  return [
    memoryRow(`resident, ${size}`, megabytes(early.residentKb)),
    { ...memoryRow(`peak until the first verification, ${size}`, megabytes(early.peakKb)), target },
    {
      ...memoryRow(
        `peak after ${changes.toLocaleString("en")} changes, ${size}`,
        megabytes(late.peakKb),
      ),
      samples: residents,
      target,
    },
    {
      ...memoryRow(`growth over the second half of the changes, ${size}`, growth),
      target: { text: `flat (≤ ${flatMb} MB)`, most: flatMb },
    },
    {
      ...memoryRow(
        `peak with an API server that ignores limit, full kernel, ${size}`,
        megabytes(unpaged.peakKb),
      ),
      target,
    },
  ];
}

function memoryRow(what: string, value: number): Row {
  return { subject: "kube-ipvs", what, kind: "figure", unit: "MB", value };
}
