/** The first sync with an empty kernel, compared with the limit program and the usual tools in the same run. */
import { join } from "node:path";
import type { DesiredState } from "../../../src/plan/desired-state.ts";
import { desiredFrom } from "../../support/many-services.ts";
import type { ApiObject } from "../../support/objects.ts";
import { ip } from "../../support/records.ts";
import { type Case, type CaseContext, type CaseOutcome, megabytes, withMachine } from "../case.ts";
import { type ClusterSize, clusterOf, sizeText, tableLines } from "../cluster.ts";
import type { Machine } from "../machine.ts";
import { writeMessages, writeToolInput } from "../messages.ts";
import { quantile, type Row, type Target } from "../rows.ts";
import { objectsRead, ourCommand, quietFlags, Subject } from "../subject.ts";

interface Plan extends ClusterSize {
  readonly expectedSeconds: number;
  /** Number of daemon runs. The limit program runs once more. */
  readonly runs: number;
  /** Returns the target for the first sync, given the duration of the limit program. */
  readonly most: (limitMs: number) => Target;
  readonly timesFasterThanTools: number;
  /**
   * `ip -batch` gets only every n-th address. All 44,000 would take longer than everything else, because adding an
   * address takes longer the more there are. The saved time is not added, so the tools look faster than they are.
   */
  readonly addressStep: number;
}

const plans: readonly Plan[] = [
  {
    services: 5_000,
    endpoints: 5,
    expectedSeconds: 45,
    runs: 3,
    most: (limitMs) => ({ text: `≤ 3 × limit`, most: 3 * limitMs }),
    timesFasterThanTools: 15,
    addressStep: 1,
  },
  {
    services: 44_000,
    endpoints: 1,
    expectedSeconds: 240,
    runs: 1,
    most: (limitMs) => ({ text: `≤ 1.3 × limit + 2 s`, most: 1.3 * limitMs + 2_000 }),
    timesFasterThanTools: 6,
    addressStep: 1,
  },
];

const folder: string = join(import.meta.dirname, "../../../build/bench");
const files = {
  messages: join(folder, "messages.bin"),
  ipvsadm: join(folder, "ipvsadm.txt"),
  ipset: join(folder, "ipset.txt"),
  ip: join(folder, "ip.txt"),
};

/** With `kubeIpvs.virtualAddresses: routes`, which binds no addresses. */
const routePlans: readonly (ClusterSize & {
  readonly mostMs: number;
  readonly expectedSeconds: number;
})[] = [
  { services: 44_000, endpoints: 1, mostMs: 6_000, expectedSeconds: 60 },
  { services: 50_000, endpoints: 5, mostMs: 15_000, expectedSeconds: 120 },
];

export const firstSyncCases: readonly Case[] = [
  ...plans.map((plan) => ({
    name: `first-sync-${plan.services}`,
    title: `First sync, empty kernel, objects already read, ${sizeText(plan)}`,
    expectedSeconds: plan.expectedSeconds,
    run: (context: CaseContext) => run(plan, context),
  })),
  ...routePlans.map((plan) => ({
    name: `routes-${plan.services}`,
    title: `First sync with local routes in place of addresses, empty kernel, objects already read, ${sizeText(plan)}`,
    expectedSeconds: plan.expectedSeconds,
    run: (context: CaseContext) => runWithRoutes(plan, context),
  })),
];

function runWithRoutes(
  plan: (typeof routePlans)[number],
  context: CaseContext,
): Promise<CaseOutcome> {
  context.step("booting");
  return withMachine({ objects: clusterOf(plan), memory: "4G" }, async (machine, server) => {
    context.step("first sync");
    const flags = [...quietFlags, "--kube-ipvs-virtual-addresses=routes"];
    const subject = await Subject.start(machine, ourCommand(server.url, flags));
    const daemon = await watchFirstSync(subject, () => objectsRead(server));
    await machine.hasLines(tableLines(plan));
    const row: Row = {
      kind: "figure",
      unit: "ms",
      subject: "kube-ipvs",
      what: `first sync with routes, ${sizeText(plan)}`,
      value: daemon.elapsedMs,
      target: { text: `≤ ${plan.mostMs / 1_000} s`, most: plan.mostMs },
      messages: daemon.messages,
      residentMb: daemon.peakMb,
    };
    return { rows: [row] };
  });
}

async function run(plan: Plan, context: CaseContext): Promise<CaseOutcome> {
  context.step("writing messages and the tools' input");
  const objects = clusterOf(plan);
  writeToolInput(files, prepare(objects), plan.addressStep);
  const limitsMs: number[] = [];
  const daemon: DaemonRun[] = [];
  let messages = 0;
  let toolsMs: ToolTimes | undefined;
  // Each run uses a new machine, because the kernel keeps data about removed real servers that slows down later runs.
  for (let turn = 0; turn < plan.runs; turn++) {
    await withMachine({ objects, memory: "3G" }, async (machine, server) => {
      context.step(`limit program, run ${turn + 1} of ${plan.runs}`);
      const limit = await runLimit(machine);
      limitsMs.push(limit.ms);
      messages = limit.messages;
      context.step(`daemon, run ${turn + 1} of ${plan.runs}`);
      const subject = await Subject.start(machine, ourCommand(server.url, quietFlags));
      daemon.push(await watchFirstSync(subject, () => objectsRead(server)));
      await machine.hasLines(tableLines(plan));
      context.keep(rowsOf(plan, { limitsMs, daemon, messages, toolsMs }));
      await subject.end("SIGKILL");
      await emptyKernel(machine);
      if (turn > 0) return;
      context.step("limit program, final run");
      limitsMs.push((await runLimit(machine)).ms);
      context.keep(rowsOf(plan, { limitsMs, daemon, messages, toolsMs }));
      toolsMs = await runTools(machine, context);
    });
  }
  return { rows: rowsOf(plan, { limitsMs, daemon, messages, toolsMs }) };
}

/** Writes the limit program's messages. */
export function prepare(objects: readonly ApiObject[]): DesiredState {
  const desired = desiredFrom(objects, [ip("192.168.10.11"), ip("10.200.0.2")]);
  writeMessages(files.messages, desired);
  return desired;
}

interface DaemonRun {
  readonly elapsedMs: number;
  /** According to the daemon's log. */
  readonly syncMs: number;
  readonly messages: number;
  readonly peakMb: number;
}

export async function watchFirstSync(
  subject: Subject,
  read: () => Promise<number>,
): Promise<DaemonRun> {
  const readAtMs = await read();
  await subject.hasSynced();
  const elapsedMs = performance.now() - readAtMs;
  const [syncMs = 0] = await subject.syncTimesMs();
  const { peakKb } = await subject.figures();
  return { elapsedMs, syncMs, messages: await subject.changes(), peakMb: megabytes(peakKb) };
}

interface LimitTimes {
  readonly ms: number;
  readonly messages: number;
}

/** Runs in its own network namespace, so that everything in it disappears afterwards. */
export async function runLimit(machine: Machine): Promise<LimitTimes> {
  const { stdout } = await inFreshNamespace(machine, [
    join(folder, "limit"),
    files.messages,
    "kube-ipvs0",
  ]);
  return JSON.parse(stdout) as LimitTimes;
}

async function inFreshNamespace(
  machine: Machine,
  argv: readonly string[],
  stdinPath?: string,
): Promise<{ readonly stdout: string; readonly elapsedMs: number }> {
  const namespace = "limit";
  await machine.script(`
    ip netns add ${namespace}
    ip -n ${namespace} link set lo up
    ip -n ${namespace} link add kube-ipvs0 type dummy
  `);
  const result = await machine.run(argv, {
    namespace,
    ...(stdinPath === undefined ? {} : { stdinPath }),
  });
  await machine.script(`ip netns delete ${namespace}`);
  return result;
}

interface ToolTimes {
  readonly ipvsadmMs: number;
  readonly ipsetMs: number;
  readonly ipMs: number;
}

async function runTools(machine: Machine, context: CaseContext): Promise<ToolTimes> {
  const time = async (argv: readonly string[], stdinPath: string): Promise<number> => {
    context.step(argv.join(" "));
    return (await inFreshNamespace(machine, argv, stdinPath)).elapsedMs;
  };
  return {
    ipvsadmMs: await time(["ipvsadm", "-R"], files.ipvsadm),
    ipsetMs: await time(["ipset", "restore"], files.ipset),
    ipMs: await time(["ip", "-batch", "-"], files.ip),
  };
}

/** Removes everything that the daemon wrote, so that hash chains are as short as before. */
async function emptyKernel(machine: Machine): Promise<void> {
  await machine.script(`
    ipvsadm -C
    ip link del kube-ipvs0
    for restore in iptables-restore ip6tables-restore; do
      printf '*nat\\nCOMMIT\\n*filter\\nCOMMIT\\n' | $restore
    done
    ipset destroy
  `);
}

function rowsOf(
  plan: Plan,
  measured: {
    readonly limitsMs: readonly number[];
    readonly daemon: readonly DaemonRun[];
    readonly messages: number;
    readonly toolsMs: ToolTimes | undefined;
  },
): readonly Row[] {
  const { limitsMs, daemon, toolsMs, messages } = measured;
  const limitMs = quantile(limitsMs, 0.5);
  const times = daemon.map(({ elapsedMs }) => elapsedMs);
  const oursMs = quantile(times, 0.5);
  const size = sizeText(plan);
  const figure = { kind: "figure", unit: "ms" } as const;
  const rows: Row[] = [
    {
      ...figure,
      subject: "kube-ipvs",
      what: `first sync, ${size}`,
      value: oursMs,
      samples: times,
      target: plan.most(limitMs),
      messages: daemon[0]?.messages ?? 0,
      residentMb: Math.max(...daemon.map(({ peakMb }) => peakMb)),
    },
    {
      ...figure,
      subject: "kube-ipvs",
      what: `of which within the sync, according to its log, ${size}`,
      value: quantile(
        daemon.map(({ syncMs }) => syncMs),
        0.5,
      ),
      samples: daemon.map(({ syncMs }) => syncMs),
    },
    {
      ...figure,
      subject: "limit",
      what: `the same messages, 64 KB at a time, ${size}`,
      value: limitMs,
      samples: limitsMs,
      messages,
    },
  ];
  if (toolsMs === undefined) return rows;
  const { ipvsadmMs, ipsetMs, ipMs } = toolsMs;
  const totalMs = ipvsadmMs + ipsetMs + ipMs;
  const part = plan.addressStep === 1 ? "" : `, 1 of ${plan.addressStep} addresses`;
  return [
    ...rows,
    {
      kind: "figure",
      subject: "kube-ipvs",
      what: `speedup over ipvsadm, ipset and ip${part}, ${size}`,
      unit: "×",
      value: totalMs / oursMs,
      target: { text: `≥ ${plan.timesFasterThanTools} ×`, least: plan.timesFasterThanTools },
    },
    {
      ...figure,
      subject: "tools",
      what: `ipvsadm -R, ipset restore, ip -batch${part} together, ${size}`,
      value: totalMs,
    },
    { ...figure, subject: "tools", what: `ipvsadm -R, ${size}`, value: ipvsadmMs },
    { ...figure, subject: "tools", what: `ipset restore, ${size}`, value: ipsetMs },
    { ...figure, subject: "tools", what: `ip -batch -${part}, ${size}`, value: ipMs },
  ];
}
