/**
 * Compares first syncs and changed endpoints of two or more builds on this machine's kernel, where programs and system
 * calls cost the same as on a node. Alternates between the builds. Needs root, and uses its own network namespace.
 * Usage: node test/bench/compare-builds.ts [--runs 20] [--size 5000x5] [--cpus 1] before=FOLDER/dist after=dist
 */
import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";
import { type ClusterSize, clusterAroundNode } from "./cluster.ts";
import { quantile } from "./rows.ts";
import { type Build, changes, type FirstSync, firstSyncOf, onThisMachine } from "./this-machine.ts";

const namespaceMark = "BENCH_NAMESPACE";
const figures: readonly (readonly [name: string, of: (run: FirstSync) => number])[] = [
  ["start to lists, ms", (run) => run.lists.clockMs],
  ["start to lists, processor ms", (run) => run.lists.processorMs],
  ["lists to synced, ms", (run) => run.sync.clockMs],
  ["lists to synced, processor ms", (run) => run.sync.processorMs],
  ["start to synced, ms", (run) => run.whole.clockMs],
  ["start to synced, processor ms", (run) => run.whole.processorMs],
  ["anonymous memory when synced, MB", (run) => run.anonymousMb],
  ["processor µs per change", (run) => (run.changed.processorMs * 1_000) / changes],
];

/**
 * Medians, and comparisons of the later builds with the first: the mean difference between alternating runs, with its
 * 95% confidence interval.
 */
function tableOf(builds: readonly Build[], runs: readonly (readonly FirstSync[])[]): string {
  const header = [
    "",
    ...builds.flatMap(({ label }, at) => (at === 0 ? [label] : [label, "ratio", "difference"])),
  ];
  const rows = figures.map(([name, of]) => {
    const samples = runs.map((of_) => of_.map(of));
    const [first = []] = samples;
    const cells = samples.flatMap((own, at) => {
      const median = quantile(own, 0.5);
      if (at === 0) return [median.toFixed(0)];
      const differences = own.map((value, run) => value - (first[run] ?? 0));
      const ratio = median / quantile(first, 0.5);
      return [median.toFixed(0), ratio.toFixed(2), differenceText(differences)];
    });
    return [name, ...cells];
  });
  const all = [header, ...rows];
  const widths = header.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const padded = (text: string, column: number): string =>
    column === 0 ? text.padEnd(widths[0] ?? 0) : text.padStart(widths[column] ?? 0);
  return all.map((row) => row.map(padded).join("  ").trimEnd()).join("\n");
}

function differenceText(differences: readonly number[]): string {
  const count = differences.length;
  const mean = differences.reduce((total, one) => total + one, 0) / count;
  const squares = differences.reduce((total, one) => total + (one - mean) ** 2, 0);
  const interval = 1.96 * Math.sqrt(squares / Math.max(1, count - 1) / count);
  return `${mean.toFixed(0)} ± ${interval.toFixed(0)}`;
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      runs: { type: "string", default: "20" },
      size: { type: "string", default: "5000x5" },
      cpus: { type: "string", default: "1" },
    },
  });
  const [services = 0, endpoints = 0] = values.size.split("x").map(Number);
  const size: ClusterSize = { services, endpoints };
  const given = positionals.map((text) => /^([^=]+)=(.+)$/.exec(text));
  if (given.length === 0 || given.includes(null)) throw new Error("builds must be LABEL=FOLDER");
  await onThisMachine(async (copy) => {
    const builds = given.map((match) => {
      const [, label = "", dist = ""] = match as RegExpExecArray;
      return copy(label, dist);
    });
    const objects = clusterAroundNode(size);
    const options = { cpus: values.cpus, foreignRules: 0, endpoints };
    const results: FirstSync[][] = builds.map(() => []);
    for (let run = 1; run <= Number(values.runs); run++) {
      if (process.stderr.isTTY) process.stderr.write(`\rrun ${run} of ${values.runs} `);
      for (const [at, build] of builds.entries()) {
        results[at]?.push(await firstSyncOf(build, objects, options));
      }
    }
    if (process.stderr.isTTY) process.stderr.write("\n");
    console.log(
      `${values.size}, ${values.runs} alternating runs each on processor ${values.cpus}: medians\n`,
    );
    console.log(tableOf(builds, results));
  });
}

if (process.env[namespaceMark] === undefined) {
  const command = ["--net", "--fork", "--kill-child", process.execPath, ...process.argv.slice(1)];
  const { status } = spawnSync("unshare", command, {
    stdio: "inherit",
    env: { ...process.env, [namespaceMark]: "1" },
  });
  process.exitCode = status ?? 1;
} else {
  await main();
}
