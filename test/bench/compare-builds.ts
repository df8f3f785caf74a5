/**
 * Compares the first sync of two or more builds on this machine's kernel, where programs and system calls cost the same
 * as on a node. Alternates between the builds. Needs root, and uses its own network namespace. Usage: node
 * test/bench/compare-builds.ts [--runs 20] [--size 5000x5] [--cpus 1] before=FOLDER/dist after=dist
 */
import { spawn, spawnSync } from "node:child_process";
import {
  cpSync,
  globSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { ApiServer } from "../support/api-server/api-server.ts";
import { shell } from "../support/netns/network-namespace.ts";
import type { ApiObject } from "../support/objects.ts";
import { type ClusterSize, clusterOf } from "./cluster.ts";
import { hostEnvironment } from "./pretended-ipvs.ts";
import { quantile } from "./rows.ts";
import { ourCommand } from "./subject.ts";

const namespaceMark = "BENCH_NAMESPACE";
/** Watches of Services, EndpointSlices and the Node. */
const watches = 3;
const timeoutMs = 120_000;
const synced = "SyncProxyRules complete";
/** Removes everything that a node does not have before a first start. */
const emptyKernel = `ip link del kube-ipvs0 2> /dev/null || true
for restore in iptables-restore ip6tables-restore; do printf '*nat\\nCOMMIT\\n*filter\\nCOMMIT\\n*mangle\\nCOMMIT\\n' | $restore; done
ipset destroy`;

interface Build {
  readonly label: string;
  readonly folder: string;
}

/** A point in a process's life: the time, and the CPU time of all its threads and exited children. */
interface Moment {
  readonly clockMs: number;
  readonly processorMs: number;
}

/**
 * Milliseconds from the start of the process to its lists, from the lists to the end of the first sync, and in total.
 */
interface FirstSync {
  readonly lists: Moment;
  readonly sync: Moment;
  readonly whole: Moment;
  readonly anonymousMb: number;
}

/** A copy of the build. Its link is of type ifb if this kernel has no dummy links. */
function copyOf(dist: string, folder: string, linkKind: string): void {
  cpSync(dist, folder, { recursive: true });
  rmSync(join(folder, "lib/compile-cache"), { recursive: true, force: true });
  for (const path of globSync(join(folder, "lib/*.cjs"))) {
    writeFileSync(path, readFileSync(path, "utf8").replaceAll('"dummy"', `"${linkKind}"`));
  }
  // Fills the compile cache as the build does.
  spawnSync(join(folder, "kube-ipvs"), ["--version"]);
}

function linkKindHere(): string {
  const { status } = spawnSync("ip", ["link", "add", "try0", "type", "dummy"]);
  if (status !== 0) return "ifb";
  shell("ip link del try0");
  return "dummy";
}

function momentOf(pid: number, startedMs: number): Moment {
  let processorMs = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      const [nanoseconds] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(
        " ",
      );
      processorMs += Number(nanoseconds) / 1e6;
    } catch {
      // The thread has exited in the meantime.
    }
  }
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const childrenMs = (Number(fields[13]) + Number(fields[14])) * 10;
  return { clockMs: performance.now() - startedMs, processorMs: processorMs + childrenMs };
}

function anonymousMbOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/RssAnon:\s+(\d+)/.exec(status)?.[1]) / 1024;
}

const between = (from: Moment, to: Moment): Moment => ({
  clockMs: to.clockMs - from.clockMs,
  processorMs: to.processorMs - from.processorMs,
});

/**
 * One start on an empty kernel. The program is killed after its first sync, because it would write its compile cache if
 * it exited.
 */
async function firstSyncOf(
  folder: string,
  objects: readonly ApiObject[],
  cpus: string,
): Promise<FirstSync> {
  shell(emptyKernel);
  const server = await ApiServer.start({ objects });
  const [, ...flags] = ourCommand(server.url).argv;
  const startedMs = performance.now();
  const child = spawn("taskset", ["-c", cpus, join(folder, "kube-ipvs"), ...flags], {
    stdio: ["ignore", "pipe", "pipe"],
    env: hostEnvironment(),
  });
  const pid = child.pid ?? 0;
  const ended = new Promise((done) => child.once("close", done));
  let output = "";
  let end: Moment | undefined;
  const take = (chunk: Buffer): void => {
    output += chunk.toString();
    if (end === undefined && output.includes(synced)) end = momentOf(pid, startedMs);
  };
  child.stdout.on("data", take);
  child.stderr.on("data", take);
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) {
      const isOver = child.exitCode !== null || performance.now() - startedMs > timeoutMs;
      if (isOver) throw new Error(`No first sync: ${output.slice(-4_000)}`);
      await pause(0.5);
    }
  };
  try {
    await until(() => server.openWatches >= watches);
    const listed = momentOf(pid, startedMs);
    await until(() => end !== undefined);
    const whole = end as Moment;
    return { lists: listed, sync: between(listed, whole), whole, anonymousMb: anonymousMbOf(pid) };
  } finally {
    child.kill("SIGKILL");
    await ended;
    await server.stop();
  }
}

const figures: readonly (readonly [name: string, of: (run: FirstSync) => number])[] = [
  ["start to lists, ms", (run) => run.lists.clockMs],
  ["start to lists, processor ms", (run) => run.lists.processorMs],
  ["lists to synced, ms", (run) => run.sync.clockMs],
  ["lists to synced, processor ms", (run) => run.sync.processorMs],
  ["start to synced, ms", (run) => run.whole.clockMs],
  ["start to synced, processor ms", (run) => run.whole.processorMs],
  ["anonymous memory then, MB", (run) => run.anonymousMb],
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
  shell(
    "ip link set lo up; ip link add eth0 type ifb; ip addr add 192.168.10.11/24 dev eth0; ip link set eth0 up; ip route add default via 192.168.10.1",
  );
  const copies = mkdtempSync(join(tmpdir(), "compare-builds-"));
  try {
    const linkKind = linkKindHere();
    const builds = given.map((match): Build => {
      const [, label = "", dist = ""] = match as RegExpExecArray;
      const folder = join(copies, label);
      copyOf(resolve(dist), folder, linkKind);
      return { label, folder };
    });
    const objects = clusterOf(size);
    const results: FirstSync[][] = builds.map(() => []);
    for (let run = 1; run <= Number(values.runs); run++) {
      if (process.stderr.isTTY) process.stderr.write(`\rrun ${run} of ${values.runs} `);
      for (const [at, { folder }] of builds.entries()) {
        results[at]?.push(await firstSyncOf(folder, objects, values.cpus));
      }
    }
    if (process.stderr.isTTY) process.stderr.write("\n");
    console.log(
      `${values.size}, ${values.runs} alternating runs each on processor ${values.cpus}, link ${linkKind}: medians\n`,
    );
    console.log(tableOf(builds, results));
  } finally {
    rmSync(copies, { recursive: true, force: true });
  }
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
