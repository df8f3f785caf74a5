/** iptables mode: the first sync, and a change of one endpoint, with few and with many Services. */
import { setTimeout as pause } from "node:timers/promises";
import type { ApiServer } from "../../support/api-server/api-server.ts";
import { positions } from "../../support/many-services.ts";
import { type Case, type CaseContext, type CaseOutcome, megabytes, withMachine } from "../case.ts";
import { type ClusterSize, clusterOf, sizeText, slicesOf } from "../cluster.ts";
import type { Machine } from "../machine.ts";
import { quantile, type Row, type Target } from "../rows.ts";
import {
  objectsRead,
  ourCommand,
  peerCommand,
  quietFlags,
  Subject,
  type SubjectCommand,
  tablesFlags,
} from "../subject.ts";

interface Plan extends ClusterSize {
  readonly changes: number;
  readonly firstSync?: Target;
  /** CPU time of one change, for all processes. */
  readonly change?: Target;
}

/** kube-proxy in this lab at the smaller size: 2.2 s for the first sync, 0.9 to 1.6 s of CPU time for a partial sync. */
const plans: readonly Plan[] = [
  {
    services: 1_000,
    endpoints: 5,
    changes: 20,
    firstSync: { text: "≤ 2.2 s", most: 2_200 },
    change: { text: "< 0.9 s", most: 900 },
  },
  { services: 5_000, endpoints: 5, changes: 20 },
];
const peerChanges = 10;
/** The CPU time of kube-ipvs itself must not grow with the cluster. The 10 ms ticks require some tolerance. */
const mostGrowth = 1.5;

export const iptablesCases: readonly Case[] = [
  {
    name: "iptables",
    title: `iptables mode: first sync, and one changed endpoint, ${plans.map(sizeText).join(" and ")}`,
    expectedSeconds: 120,
    run,
  },
];

interface Measured {
  readonly plan: Plan;
  readonly command: SubjectCommand;
  readonly firstSyncMs: number;
  /** CPU time of one change, for all processes and for the daemon without its child processes. */
  readonly cpuMs: number;
  readonly ownCpuMs: number;
  readonly latenciesMs: readonly number[];
  /** Number of processes started by all changes. */
  readonly processes: number;
  /** Number of full syncs during the changes. Undefined if the proxy has no such metric. */
  readonly fullSyncs: number;
  readonly residentMb: number;
}

async function run(context: CaseContext): Promise<CaseOutcome> {
  const all: Measured[] = [];
  const { peer } = context;
  const note = (measured: Measured): void => {
    all.push(measured);
    context.keep(rowsOf(all));
  };
  const ours: CommandFor = (master) => ourCommand(master, [...quietFlags, ...tablesFlags]);
  for (const plan of plans) note(await measure(plan, context, ours));
  if (peer === undefined) return { rows: rowsOf(all) };
  const theirs: CommandFor = (master) => peerCommand(peer, master, "iptables");
  for (const plan of plans) note(await measure({ ...plan, changes: peerChanges }, context, theirs));
  return { rows: rowsOf(all) };
}

type CommandFor = (master: string) => SubjectCommand;

function measure(plan: Plan, context: CaseContext, commandFor: CommandFor): Promise<Measured> {
  context.step(`booting, ${sizeText(plan)}`);
  return withMachine({ objects: clusterOf(plan), memory: "2G" }, async (machine, server) => {
    const command = commandFor(server.url);
    context.step(`first sync of ${command.name}, ${sizeText(plan)}`);
    const subject = await Subject.start(machine, command);
    const readAtMs = await objectsRead(server, command.isOurs ? 3 : 2);
    const entries = await machine.hasEntries(plan.services * entriesOf(plan.endpoints));
    const firstSyncMs = performance.now() - readAtMs;
    context.step(`${command.name}: waiting until it is idle`);
    await subject.becomesIdle();
    const before = await standing(machine, subject);
    const latenciesMs = await makeChanges({ machine, server, plan, entries }, (turn) =>
      context.step(`${command.name}, ${sizeText(plan)}: change ${turn} of ${plan.changes}`),
    );
    await pause(500);
    const after = await standing(machine, subject);
    await subject.end();
    return {
      plan,
      command,
      firstSyncMs,
      cpuMs: (after.cpuMs - before.cpuMs) / plan.changes,
      ownCpuMs: (after.ownCpuMs - before.ownCpuMs) / plan.changes,
      latenciesMs,
      processes: after.forks - before.forks,
      fullSyncs: after.fullSyncs - before.fullSyncs,
      residentMb: megabytes(after.residentKb),
    };
  });
}

/**
 * Number of nat entries for a Service with one port: a rule in KUBE-SERVICES; a chain with its head, its end, a
 * masquerading rule and one rule per endpoint; and, for each endpoint, a chain with its head, its end and two rules.
 */
function entriesOf(endpoints: number): number {
  return 1 + (3 + endpoints) + 4 * endpoints;
}

async function standing(
  machine: Machine,
  subject: Subject,
): Promise<{
  readonly cpuMs: number;
  readonly ownCpuMs: number;
  readonly residentKb: number;
  readonly forks: number;
  readonly fullSyncs: number;
}> {
  const fullSyncs = await subject.metric(
    "kubeproxy_sync_full_proxy_rules_duration_seconds_count",
    'ip_family="IPv4"',
  );
  const figures = await subject.figures();
  return { ...figures, forks: await machine.ask("forkCount", {}), fullSyncs };
}

/**
 * Alternately adds and removes endpoints. Returns the milliseconds from each write at the API server until the kernel
 * shows it.
 */
async function makeChanges(
  parts: {
    readonly machine: Machine;
    readonly server: ApiServer;
    readonly plan: Plan;
    /** Number of entries in the kernel at the beginning. */
    readonly entries: number;
  },
  onTurn: (turn: number) => void,
): Promise<readonly number[]> {
  const { machine, server, plan } = parts;
  const latenciesMs: number[] = [];
  let { entries } = parts;
  for (let turn = 0; turn < plan.changes; turn++) {
    onTurn(turn);
    const wanted = plan.endpoints + (turn % 2 === 0 ? 1 : 0);
    const seen = machine.hasOtherEntries(entries);
    const beganMs = performance.now();
    server.apply(...slicesOf(Math.floor(turn / 2), positions(wanted)));
    entries = await seen;
    latenciesMs.push(performance.now() - beganMs);
  }
  return latenciesMs;
}

function rowsOf(all: readonly Measured[]): readonly Row[] {
  return [...all.flatMap(rowsOfOne), ...growthRows(all)];
}

function rowsOfOne(measured: Measured): readonly Row[] {
  const { plan, command, latenciesMs, processes, residentMb } = measured;
  const { name: subject, isOurs } = command;
  const where = sizeText(plan);
  const target = (value: Target | undefined): { target?: Target } =>
    isOurs && value !== undefined ? { target: value } : {};
  const figure = { subject, kind: "figure", unit: "ms" } as const;
  const count = { subject, kind: "count", unit: "" } as const;
  const { changes } = plan;
  return [
    {
      ...figure,
      what: `first sync, objects already read, ${where}`,
      value: measured.firstSyncMs,
      ...target(plan.firstSync),
    },
    {
      ...figure,
      what: `CPU per change, including iptables-restore, ${where}`,
      value: measured.cpuMs,
      ...target(plan.change),
      processes,
      residentMb,
    },
    { ...figure, what: `CPU per change, the proxy alone, ${where}`, value: measured.ownCpuMs },
    {
      ...figure,
      what: `API-to-kernel delay of a change, ${where}`,
      value: quantile(latenciesMs, 0.5),
      samples: latenciesMs,
    },
    {
      ...count,
      what: `processes started by ${changes} changes, ${where}`,
      value: processes,
      ...target({ text: `≤ ${changes}`, most: changes }),
    },
    {
      ...count,
      what: `full IPv4 syncs during ${changes} changes, ${where}`,
      value: measured.fullSyncs,
      ...target({ text: "0", most: 0 }),
    },
  ];
}

/** Growth of each proxy that was measured with both sizes. */
function growthRows(all: readonly Measured[]): readonly Row[] {
  const [few, many] = plans as [Plan, Plan];
  const ofSize = (subject: string, { services }: Plan): Measured | undefined =>
    all.find(({ plan, command }) => plan.services === services && command.name === subject);
  const text = (count: number): string => count.toLocaleString("en");
  return ["kube-ipvs", "peer"].flatMap((subject): readonly Row[] => {
    const [base, grown] = [ofSize(subject, few), ofSize(subject, many)];
    if (base === undefined || grown === undefined) return [];
    const what = `the proxy's own CPU per change with ${text(many.services)} Services, divided by that with ${text(few.services)}`;
    const value = grown.ownCpuMs / base.ownCpuMs;
    const target = { text: `≤ ${mostGrowth} ×`, most: mostGrowth };
    const row: Row = { subject, kind: "figure", unit: "×", what, value };
    return [grown.command.isOurs ? { ...row, target } : row];
  });
}
