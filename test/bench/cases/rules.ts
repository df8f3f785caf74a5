/**
 * Rules written with nf_tables, compared with rules written with iptables and ipset. Each round measures all writers
 * one after another, each in a new lab kernel, so that other work on the machine affects all of them. CPU times are
 * also measured on this machine's kernel, where they depend less on other work. Needs LAB_KERNEL with nf_tables.
 */
import { join } from "node:path";
import type { IptablesVariant } from "../../lab/lab-kernel.ts";
import { node } from "../../support/objects.ts";
import { type Case, type CaseContext, type CaseOutcome, megabytes, withMachine } from "../case.ts";
import { type ClusterSize, clusterAroundNode, clusterOf, sizeText } from "../cluster.ts";
import type { Machine } from "../machine.ts";
import { labCpuMs } from "../process-figures.ts";
import { quantile, type Row, relativeTo, type Target } from "../rows.ts";
import { objectsRead, ourCommand, quietFlags, Subject } from "../subject.ts";
import {
  type Build,
  changes,
  type FirstSync,
  firstSyncOf,
  onThisMachine,
} from "../this-machine.ts";
import { makeChanges } from "./change.ts";
import {
  buildNetwork,
  load,
  others,
  ports,
  startDaemon,
  startServer,
  target,
  toClusterIp,
  workers,
} from "./data-plane.ts";
import { prepare, runLimit, watchFirstSync } from "./first-sync.ts";

interface Writer {
  readonly name: string;
  readonly flags: readonly string[];
  readonly iptables: IptablesVariant;
}

const nfTables: Writer = {
  name: "nf_tables",
  flags: ["--kube-ipvs-rules=nftables"],
  iptables: "nft",
};
const iptablesFlags = ["--kube-ipvs-rules=iptables"];
/** The order within a round. */
const writers: readonly Writer[] = [
  { name: "iptables-legacy", flags: iptablesFlags, iptables: "legacy" },
  nfTables,
  { name: "iptables-nft", flags: iptablesFlags, iptables: "nft" },
];

interface Figure {
  readonly what: string;
  readonly unit: string;
  readonly value: number;
  readonly target?: Target;
  /** The target for nf_tables' ratio to the other writers. */
  readonly relative?: Target;
}

/** Sizes, and how many times to repeat each measurement. */
const rounds = Number(process.env["BENCH_ROUNDS"] ?? 5);
const firstSyncs: readonly (ClusterSize & {
  readonly most: number;
  readonly expectedSeconds: number;
})[] = [
  { services: 5_000, endpoints: 5, most: 4, expectedSeconds: 300 },
  { services: 44_000, endpoints: 1, most: 1.2, expectedSeconds: 600 },
];
/** Changes are measured only with this size, because their cost does not grow with the number of Services. */
const changedServices = 5_000;
const dataPlaneSizes: readonly number[] = [10, 1_000, 10_000];
const loadsPerRound = 3;
/** Enough to make opening the connection irrelevant. Each exchange has one packet in each direction. */
const exchanges = 200;
const foreignRules = 5_000;
const hostSize: ClusterSize = { services: 5_000, endpoints: 5 };

const notAbove: Target = { text: "≤ 1 ×", most: 1 };
const notBelow: Target = { text: "≥ 1 ×", least: 1 };

export const rulesCases: readonly Case[] =
  process.env["LAB_KERNEL"] === undefined
    ? []
    : [
        ...firstSyncs.map((plan) => ({
          name: `rules-${plan.services}`,
          title: `Rules with nf_tables and with iptables, ${sizeText(plan)}`,
          expectedSeconds: plan.expectedSeconds,
          run(context: CaseContext) {
            prepare(clusterOf(plan));
            return alternate(context, (writer, step) => measureSync(plan, writer, step));
          },
        })),
        {
          name: "rules-data-plane",
          title: "Packets through rules with nf_tables and with iptables",
          expectedSeconds: 900,
          run: (context) => alternate(context, measureDataPlane),
        },
        {
          name: "rules-host",
          title: `Rules with nf_tables and with iptables on this machine's kernel, ${sizeText(hostSize)}`,
          expectedSeconds: 600,
          run: measureHere,
        },
      ];

type Step = (text: string) => void;

async function alternate(
  context: CaseContext,
  measure: (writer: Writer, step: Step) => Promise<readonly Figure[]>,
  order: readonly Writer[] = writers,
): Promise<CaseOutcome> {
  const measured = new Map<Writer, (readonly Figure[])[]>(order.map((writer) => [writer, []]));
  for (let round = 1; round <= rounds; round++) {
    for (const [writer, figures] of measured) {
      const step: Step = (text) =>
        context.step(`round ${round} of ${rounds}, ${writer.name}: ${text}`);
      step("booting");
      figures.push(await measure(writer, step));
    }
    context.keep(rowsOf(measured));
  }
  return { rows: rowsOf(measured) };
}

/** First sync, one changed endpoint, and memory. */
function measureSync(
  plan: (typeof firstSyncs)[number],
  writer: Writer,
  step: Step,
): Promise<readonly Figure[]> {
  const size = sizeText(plan);
  const options = { objects: clusterAroundNode(plan), iptables: writer.iptables };
  return withMachine(options, async (machine, server) => {
    step("limit program");
    const limit = await runLimit(machine);
    step("first sync");
    const command = ourCommand(server.url, [...quietFlags, ...writer.flags]);
    const subject = await Subject.start(machine, command);
    const { elapsedMs } = await watchFirstSync(subject, () => objectsRead(server));
    const figures: Figure[] = [
      { what: `first sync, ${size}`, unit: "ms", value: elapsedMs, relative: notAbove },
      {
        what: `first sync divided by limit program, ${size}`,
        unit: "×",
        value: elapsedMs / limit.ms,
        target: { text: `≤ ${plan.most} × limit`, most: plan.most },
      },
    ];
    await subject.becomesIdle();
    const parts = { machine, server, subject, command };
    if (plan.services === changedServices) {
      const context = { step, keep: () => undefined };
      const localFrom = plan.endpoints;
      const { cpuMs, processes } = await makeChanges({ ...parts, localFrom }, changes, context);
      figures.push(
        {
          what: `CPU per changed endpoint on this node, ${size}`,
          unit: "ms",
          value: cpuMs / changes,
          target: { text: "≤ 1.5 ms", most: 1.5 },
        },
        {
          what: `processes started by ${changes} changed endpoints, ${size}`,
          unit: "",
          value: processes,
          target: { text: "0", most: 0 },
        },
      );
    }
    const { residentKb, peakKb, anonymousKb } = await subject.figures();
    figures.push({
      what: `anonymous memory, peak, ${size}`,
      unit: "MB",
      value: megabytes(peakKb - residentKb + anonymousKb),
      relative: notAbove,
    });
    return figures;
  });
}

function measureDataPlane(writer: Writer, step: Step): Promise<readonly Figure[]> {
  const { iptables, flags } = writer;
  return withMachine({ objects: [node(), ...target()], iptables }, async (machine, server) => {
    await buildNetwork(machine);
    await startServer(machine, ports.service);
    const figures: Figure[] = [];
    for (const [at, services] of dataPlaneSizes.entries()) {
      step(`${services} Services`);
      server.apply(...others(dataPlaneSizes[at - 1] ?? 1, services));
      const subject = await startDaemon(machine, server, services, flags);
      await subject.end();
      const where = `${services.toLocaleString("en")} Services`;
      figures.push(
        {
          what: `connections per CPU second, ${where}`,
          unit: "/s",
          value: await rateOf(machine, 1),
          relative: notBelow,
        },
        {
          what: `packets per CPU second, ${where}`,
          unit: "/s",
          value: (await rateOf(machine, exchanges)) * exchanges * 2,
          relative: notBelow,
        },
      );
    }
    return figures;
  });
}

/**
 * Connections per second of the lab's CPU time, each with `exchangesEach` exchanges. A rate per second of real time
 * would depend more on other work on the machine.
 */
async function rateOf(machine: Machine, exchangesEach: number): Promise<number> {
  const rates: number[] = [];
  for (let run = 0; run < loadsPerRound; run++) {
    const beganMs = labCpuMs();
    const { microseconds, failures } = await load(machine, toClusterIp, workers, exchangesEach);
    if (failures > 0) throw new Error(`${failures} connections failed`);
    rates.push((microseconds.length / (labCpuMs() - beganMs)) * 1_000);
  }
  return quantile(rates, 0.5);
}

/** On this machine's own kernel, with the default periods of all checks. Legacy iptables is not measured there. */
function measureHere(context: CaseContext): Promise<CaseOutcome> {
  const dist = join(import.meta.dirname, "../../../dist");
  const objects = clusterAroundNode(hostSize);
  return onThisMachine((copy) => {
    const here = writers.filter(({ iptables }) => iptables === "nft");
    const builds = new Map(here.map((one) => [one, copy(one.name, dist, one.flags)]));
    const options = { cpus: "1", foreignRules, endpoints: hostSize.endpoints };
    return alternate(
      context,
      async (writer, step) => {
        step("first sync, changes and checks");
        return figuresHere(await firstSyncOf(builds.get(writer) as Build, objects, options));
      },
      here,
    );
  });
}

function figuresHere({ sync, changed, checks, anonymousMb }: FirstSync): readonly Figure[] {
  const share = checks === undefined ? 0 : (100 * checks.processorMs) / checks.clockMs;
  const rules = `${foreignRules.toLocaleString("en")} third-party rules and one more each second`;
  const where = `${sizeText(hostSize)}, host kernel`;
  return [
    {
      what: `CPU of first sync, ${where}`,
      unit: "ms",
      value: sync.processorMs,
      relative: notAbove,
    },
    {
      what: `CPU per changed endpoint on this node, ${where}`,
      unit: "ms",
      value: changed.processorMs / changes,
      target: { text: "≤ 1.5 ms", most: 1.5 },
    },
    {
      what: `CPU share with ${rules}, ${where}`,
      unit: "%",
      value: share,
      target: { text: "≤ 0.5%", most: 0.5 },
    },
    {
      what: `anonymous memory after first sync, ${where}`,
      unit: "MB",
      value: anonymousMb,
      relative: notAbove,
    },
  ];
}

/** Values of each writer, and the ratios within the rounds. */
function rowsOf(measured: ReadonlyMap<Writer, readonly (readonly Figure[])[]>): readonly Row[] {
  const ours = measured.get(nfTables) ?? [];
  const samplesOf = (list: readonly (readonly Figure[])[], at: number): readonly number[] =>
    list.map((figures) => figures[at]?.value ?? Number.NaN);
  return (ours[0] ?? []).flatMap((figure, at) => {
    const { what, unit, relative } = figure;
    return [...measured].flatMap(([writer, list]): readonly Row[] => {
      const samples = samplesOf(list, at);
      const row: Row = {
        ...{ subject: writer.name, what, unit, samples },
        kind: "figure",
        value: quantile(samples, 0.5),
        ...(figure.target === undefined ? {} : { target: figure.target }),
      };
      if (relative === undefined || writer === nfTables) return [row];
      const ratios = samplesOf(ours, at).map((value, round) => value / (samples[round] ?? value));
      const ratio: Row = {
        ...{ subject: nfTables.name, what: what + relativeTo + writer.name, unit: "×" },
        ...{ kind: "figure", value: quantile(ratios, 0.5), samples: ratios, target: relative },
      };
      return [row, ratio];
    });
  });
}
