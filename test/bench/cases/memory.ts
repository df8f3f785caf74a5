/**
 * A proxy's current and peak memory: idle, with clusters of four sizes, and after thousands of changes. Measures
 * anonymous memory, because file pages (programs, libraries) belong to the page cache, which the kernel can drop at any
 * time.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { ApiServer } from "../../support/api-server/api-server.ts";
import { clusterIpOf, positions } from "../../support/many-services.ts";
import { node } from "../../support/objects.ts";
import type { ProcessFigures } from "../agent-requests.ts";
import { type Case, type CaseContext, type CaseOutcome, megabytes, withMachine } from "../case.ts";
import { type ClusterSize, clusterOf, sizeText, slicesOf, tableLines } from "../cluster.ts";
import type { Machine } from "../machine.ts";
import type { Row, Target } from "../rows.ts";
import { objectsRead, ourCommand, peerCommand, Subject, type SubjectCommand } from "../subject.ts";

interface Plan extends ClusterSize {
  readonly mostMb: number;
  readonly expectedSeconds: number;
}

/** Up to 5,000 × 5, the limits are what kube-proxy 1.36 uses in IPVS mode. */
const plans: readonly Plan[] = [
  { services: 1_000, endpoints: 5, mostMb: 73, expectedSeconds: 40 },
  { services: 5_000, endpoints: 5, mostMb: 127, expectedSeconds: 50 },
  { services: 10_000, endpoints: 10, mostMb: 140, expectedSeconds: 70 },
  { services: 5_000, endpoints: 50, mostMb: 220, expectedSeconds: 80 },
];
/** Enough changes to replace the data of each endpoint slice in the largest cluster several times. */
const changes = 30_000;
const peerChanges = 200;
const changesAtOnce = 20;
/** If memory grows by more than this in the second half of the changes, it leaks. */
const flatMb = 5;
const servicePort = 80;
/** The default settings, except that verifications are more frequent, so that the measured peak includes one. */
const flags = ["--kube-ipvs-verification-period=10s"];
const verificationsMs = 15_000;

export const memoryCases: readonly Case[] = [
  {
    name: "memory-idle",
    title: "Memory, idle",
    expectedSeconds: 30,
    run: (context) => runIdle(context),
  },
  ...plans.map((plan) => ({
    name: `memory-${plan.services}x${plan.endpoints}`,
    title: `Memory, ${sizeText(plan)}`,
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
    context.step("idle with manifests");
    await machine.script("mkdir /run/manifests");
    const own = ours.argv.filter((word) => !word.startsWith("--master="));
    const manifests = await idleMemory(machine, [...own, "--manifests=/run/manifests"]);
    return {
      rows: [
        ...rowsAt("idle with a cluster", cluster, ours, atMost(85)),
        ...rowsAt("idle with manifests", manifests, ours, atMost(60)),
      ],
    };
  });
}

/** Memory after every periodic check has run. */
async function idleMemory(machine: Machine, argv: readonly string[]): Promise<ProcessFigures> {
  const subject = await Subject.start(machine, {
    name: "",
    argv: [...argv, ...flags],
    isOurs: true,
  });
  await subject.hasSynced();
  await pause(12_000);
  const figures = await subject.figures();
  await subject.end();
  return figures;
}

async function runFull(plan: Plan, context: CaseContext): Promise<CaseOutcome> {
  const ours = await measure(plan, context, (master) => ourCommand(master, flags), changes);
  const { peer } = context;
  if (peer === undefined || plan.services * plan.endpoints > 25_000) return { rows: ours };
  context.keep(ours, []);
  const theirs = await measure(plan, context, (master) => peerCommand(peer, master), peerChanges);
  return { rows: [...ours, ...theirs] };
}

function measure(
  plan: Plan,
  context: CaseContext,
  commandFor: (master: string) => SubjectCommand,
  changeCount: number,
): Promise<readonly Row[]> {
  const size = sizeText(plan);
  context.step(`booting, ${size}`);
  return withMachine({ objects: clusterOf(plan) }, async (machine, server) => {
    const command = commandFor(server.url);
    context.step(`first sync of ${command.name}`);
    const subject = await Subject.start(machine, command);
    await objectsRead(server, command.isOurs ? 3 : 2);
    await machine.hasLines(tableLines(plan));
    context.step(`${command.name}: verifications`);
    await pause(verificationsMs);
    const early = await subject.figures();
    const parts = { machine, server, subject, plan, context };
    const samples = await makeChanges(parts, changeCount);
    await pause(verificationsMs);
    const late = await subject.figures();
    await subject.end();
    const target = command.isOurs ? atMost(plan.mostMb) : undefined;
    const afterText = `after ${changeCount.toLocaleString("en")} changes, ${size}`;
    const rows = [
      ...rowsAt(`after the first verification, ${size}`, early, command, target),
      ...rowsAt(afterText, late, command, target),
    ];
    if (!command.isOurs) return rows;
    context.step("restart with an API server that ignores limit");
    server.lists.ignoresLimit = true;
    const again = await Subject.start(machine, command);
    await again.hasSynced();
    await pause(verificationsMs);
    const unpaged = await again.figures();
    return [
      ...rows,
      growthRow(size, samples),
      ...rowsAt(`API server that ignores limit, full kernel, ${size}`, unpaged, command, target),
    ];
  });
}

/** Makes changes, and returns ten samples of anonymous memory in megabytes. */
async function makeChanges(
  {
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
  },
  count: number,
): Promise<readonly number[]> {
  const samples: number[] = [];
  for (let done = 0; done < count; done += changesAtOnce) {
    const round = Math.floor(done / changesAtOnce);
    const wanted = plan.endpoints + (round % 2 === 0 ? 1 : 0);
    const first = (Math.floor(round / 2) * changesAtOnce) % plan.services;
    const touched = positions(changesAtOnce).map((offset) => first + offset);
    const last = machine.hasServers(clusterIpOf(touched.at(-1) ?? 0), servicePort, wanted);
    for (const index of touched) server.apply(...slicesOf(index, positions(wanted)));
    await last;
    if ((done + changesAtOnce) % (count / 10) !== 0) continue;
    context.step(`change ${done + changesAtOnce} of ${count}`);
    samples.push(megabytes((await subject.figures()).anonymousKb));
  }
  return samples;
}

/** The difference between the maximum of the second half and that of the first half. */
function growthRow(size: string, samples: readonly number[]): Row {
  const half = samples.length / 2;
  const growthMb = Math.max(...samples.slice(half)) - Math.max(...samples.slice(0, half));
  return {
    ...memoryRow(
      "kube-ipvs",
      `anonymous memory, growth over the second half of the changes, ${size}`,
    ),
    value: growthMb,
    samples,
    target: { text: `flat (≤ ${flatMb} MB)`, most: flatMb },
  };
}

function rowsAt(
  when: string,
  { residentKb, peakKb, anonymousKb }: ProcessFigures,
  { name }: SubjectCommand,
  target: Target | undefined,
): readonly Row[] {
  const filesKb = residentKb - anonymousKb;
  return [
    { ...memoryRow(name, `anonymous memory, ${when}`), value: megabytes(anonymousKb) },
    // The kernel records only the peak of anonymous and file pages together. File pages hardly change at run time.
    {
      ...memoryRow(name, `peak anonymous memory so far, ${when}`),
      value: megabytes(peakKb - filesKb),
      ...(target === undefined ? {} : { target }),
    },
    { ...memoryRow(name, `file pages, ${when}`), value: megabytes(filesKb) },
  ];
}

function memoryRow(subject: string, what: string): Omit<Row, "value"> {
  return { subject, what, kind: "figure", unit: "MB" };
}

function atMost(mostMb: number): Target {
  return { text: `≤ ${mostMb} MB`, most: mostMb };
}
