/** One endpoint of one Service changes, with different numbers of Services. The result is the growth curve. */
import { setTimeout as pause } from "node:timers/promises";
import type { ApiServer } from "../../support/api-server/api-server.ts";
import { clusterIpOf, positions } from "../../support/many-services.ts";
import { type Case, type CaseContext, type CaseOutcome, megabytes, withMachine } from "../case.ts";
import { type ClusterSize, clusterOf, sizeText, slicesOf, tableLines } from "../cluster.ts";
import type { Machine } from "../machine.ts";
import { type Growth, notAbove, quantile, type Row, type Target } from "../rows.ts";
import {
  objectsRead,
  ourCommand,
  peerCommand,
  quietFlags,
  Subject,
  type SubjectCommand,
} from "../subject.ts";
import { measureVerification } from "../verification.ts";

const endpoints = 5;
const servicePort = 80;

interface Plan {
  readonly services: number;
  readonly changes: number;
  /** Number of changes for another proxy, which may need many seconds for each. If absent, that proxy is not measured. */
  readonly peerChanges?: number;
  readonly memory: string;
  readonly expectedSeconds: number;
}

const plans: readonly Plan[] = [
  { services: 1_000, changes: 1_000, peerChanges: 10, memory: "2G", expectedSeconds: 40 },
  { services: 5_000, changes: 1_000, peerChanges: 3, memory: "2G", expectedSeconds: 50 },
  { services: 10_000, changes: 200, memory: "3G", expectedSeconds: 50 },
  { services: 20_000, changes: 200, memory: "3G", expectedSeconds: 80 },
  { services: 50_000, changes: 1_000, memory: "4G", expectedSeconds: 170 },
  { services: 100_000, changes: 200, memory: "9G", expectedSeconds: 400 },
];

export const changeCases: readonly Case[] = plans.map((plan) => ({
  name: `change-${plan.services}`,
  title: `One endpoint of one Service changes, ${sizeText({ ...plan, endpoints })} present`,
  expectedSeconds: plan.expectedSeconds,
  run: (context) => run(plan, context),
}));

async function run(plan: Plan, context: CaseContext): Promise<CaseOutcome> {
  const ours = await measure(plan, context, (master) => ourCommand(master, quietFlags));
  const { peer } = context;
  if (peer === undefined || plan.peerChanges === undefined) return ours;
  const fewer = { ...plan, changes: plan.peerChanges };
  const theirs = await measure(fewer, context, (master) => peerCommand(peer, master));
  return {
    rows: [...notAbove(ours.rows, theirs.rows, "anonymous"), ...theirs.rows],
    growth: [...(ours.growth ?? []), ...(theirs.growth ?? [])],
  };
}

function measure(
  plan: Plan,
  context: CaseContext,
  commandFor: (master: string) => SubjectCommand,
): Promise<CaseOutcome> {
  const size = { services: plan.services, endpoints };
  context.step(`booting, ${sizeText(size)}`);
  const { memory, expectedSeconds } = plan;
  const options = { objects: clusterOf(size), memory, timeoutSeconds: 500 + 5 * expectedSeconds };
  return withMachine(options, async (machine, server) => {
    const command = commandFor(server.url);
    context.step(`first sync of ${command.name}`);
    const subject = await Subject.start(machine, command);
    const readAtMs = await objectsRead(server, command.isOurs ? 3 : 2);
    await machine.hasLines(tableLines(size));
    const firstSyncMs = performance.now() - readAtMs;
    if (command.isOurs) await subject.hasSynced();
    context.step(`${command.name}: waiting until it is idle`);
    const idleAfterMs = await subject.becomesIdle();
    const startUpCpuMs = (await subject.figures()).cpuMs;
    const parts = { machine, server, subject, command };
    const changed = await makeChanges(parts, plan.changes, context);
    const { residentKb, peakKb, anonymousKb } = await subject.figures();
    const growth: Growth = {
      subject: command.name,
      ...size,
      firstSyncMs,
      changeCpuMs: changed.cpuMs / plan.changes,
      changeP50Ms: quantile(changed.latenciesMs, 0.5),
      changeP99Ms: quantile(changed.latenciesMs, 0.99),
      residentMb: megabytes(residentKb),
      peakMb: megabytes(peakKb),
    };
    const around = { startUpCpuMs, idleAfterMs, anonymousMb: megabytes(anonymousKb) };
    const outcomeOf = (one: Growth): CaseOutcome => ({
      rows: rowsOf(one, { ...changed, ...around, count: plan.changes }, command),
      growth: [one],
    });
    await subject.end();
    if (!command.isOurs) return outcomeOf(growth);
    const { rows } = outcomeOf(growth);
    context.keep(rows, [growth]);
    const verificationCpuMs = await measureVerification(machine, server, context);
    return outcomeOf({ ...growth, verificationCpuMs });
  });
}

interface Changed {
  readonly cpuMs: number;
  readonly latenciesMs: readonly number[];
  /** Undefined if the proxy does not count them. */
  readonly messages: number | undefined;
  readonly processes: number;
}

/** Alternately adds and removes endpoints. Each change affects a different Service until all have changed. */
export async function makeChanges(
  {
    machine,
    server,
    subject,
    command,
    localFrom,
  }: {
    readonly machine: Machine;
    readonly server: ApiServer;
    readonly subject: Subject;
    readonly command: SubjectCommand;
    readonly localFrom?: number;
  },
  count: number,
  context: CaseContext,
): Promise<Changed> {
  const countMessages = async (): Promise<number | undefined> =>
    command.isOurs ? subject.changes() : undefined;
  const messagesBefore = await countMessages();
  const [before, forksBefore] = [await subject.figures(), await machine.ask("forkCount", {})];
  const latenciesMs: number[] = [];
  for (let turn = 0; turn < count; turn++) {
    if (turn % 100 === 0) context.step(`${command.name}: change ${turn} of ${count}`);
    latenciesMs.push(await changeOne(machine, server, turn, localFrom));
  }
  // Another proxy's sync continues for a long time after the change that started it.
  await (command.isOurs ? pause(500) : subject.becomesIdle());
  const [after, forksAfter] = [await subject.figures(), await machine.ask("forkCount", {})];
  const messagesAfter = await countMessages();
  return {
    cpuMs: after.cpuMs - before.cpuMs,
    latenciesMs,
    messages: messagesBefore === undefined ? undefined : (messagesAfter ?? 0) - messagesBefore,
    processes: forksAfter - forksBefore,
  };
}

/** Time from the API server's write until the kernel shows the change. */
async function changeOne(
  machine: Machine,
  server: ApiServer,
  turn: number,
  localFrom?: number,
): Promise<number> {
  const index = Math.floor(turn / 2);
  const wanted = endpoints + (turn % 2 === 0 ? 1 : 0);
  const seen = machine.hasServers(clusterIpOf(index), servicePort, wanted);
  const beganMs = performance.now();
  server.apply(...slicesOf(index, positions(wanted), localFrom));
  await seen;
  return performance.now() - beganMs;
}

interface Measured extends Changed {
  readonly startUpCpuMs: number;
  readonly idleAfterMs: number;
  readonly anonymousMb: number;
  /** The number of changes. */
  readonly count: number;
}

function rowsOf(
  growth: Growth,
  { latenciesMs, messages, processes, startUpCpuMs, idleAfterMs, anonymousMb, count }: Measured,
  { name: subject, isOurs }: SubjectCommand,
): readonly Row[] {
  const size: ClusterSize = growth;
  const where = sizeText(size);
  const countText = count.toLocaleString("en");
  const target = (value: Target): { target?: Target } => (isOurs ? { target: value } : {});
  const figure = { subject, kind: "figure", unit: "ms" } as const;
  const { changeCpuMs, changeP50Ms, changeP99Ms, firstSyncMs, residentMb } = growth;
  const { verificationCpuMs } = growth;
  const counts: readonly Row[] =
    messages === undefined
      ? []
      : [
          {
            subject,
            kind: "count",
            unit: "",
            what: `messages for ${countText} changes, ${where}`,
            value: messages,
            ...target({ text: `≤ ${(count * 1.5).toLocaleString("en")}`, most: count * 1.5 }),
          },
          {
            subject,
            kind: "count",
            unit: "",
            what: `processes started by ${countText} changes, ${where}`,
            value: processes,
            ...target({ text: "0", most: 0 }),
          },
        ];
  return [
    {
      ...figure,
      what: `CPU per change, ${where}`,
      value: changeCpuMs,
      ...target({ text: "< 5 ms", most: 5 }),
      ...(messages === undefined ? {} : { messages }),
      processes,
      residentMb,
    },
    ...counts,
    {
      ...figure,
      what: `API-to-kernel delay of a change, p50, ${where}`,
      value: changeP50Ms,
      samples: latenciesMs,
      ...target({ text: "< 10 ms", most: 10 }),
    },
    {
      ...figure,
      what: `API-to-kernel delay of a change, p99, ${where}`,
      value: changeP99Ms,
      samples: latenciesMs,
      ...target({ text: "< 50 ms", most: 50 }),
    },
    { ...figure, what: `first sync, objects already read, ${where}`, value: firstSyncMs },
    { ...figure, what: `CPU from the first sync until idle, ${where}`, value: idleAfterMs },
    { ...figure, what: `CPU from startup until idle, ${where}`, value: startUpCpuMs },
    {
      ...figure,
      what: `anonymous memory after the changes, ${where}`,
      unit: "MB",
      value: anonymousMb,
    },
    ...(verificationCpuMs === undefined
      ? []
      : [{ ...figure, what: `CPU of one verification, ${where}`, value: verificationCpuMs }]),
  ];
}
