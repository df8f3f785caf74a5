/**
 * A daemon's first sync on this machine's own kernel, in this process's network namespace. If the kernel lacks IPVS, it
 * is simulated.
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
import { ApiServer } from "../support/api-server/api-server.ts";
import { positions } from "../support/many-services.ts";
import { shell } from "../support/netns/network-namespace.ts";
import type { ApiObject } from "../support/objects.ts";
import { slicesOf } from "./cluster.ts";
import { hostEnvironment } from "./pretended-ipvs.ts";
import { ourCommand } from "./subject.ts";

/** Watches of Services, EndpointSlices and the Node. */
const watches = 3;
const timeoutMs = 120_000;
const synced = "SyncProxyRules complete";
/** Removes what the program has created, so that the kernel is as before a first start. */
const emptyKernel = `ip link del kube-ipvs0 2> /dev/null || true
for restore in iptables-restore ip6tables-restore iptables-nft-restore ip6tables-nft-restore; do
  printf '*nat\\nCOMMIT\\n*filter\\nCOMMIT\\n*mangle\\nCOMMIT\\n' | $restore 2> /dev/null || true
done
ipset destroy
nft delete table ip other 2> /dev/null || true
for family in ip ip6; do nft delete table $family kube-ipvs 2> /dev/null || true; done`;
/** Number of changes after the first sync, alternately adding and removing an endpoint of this node. */
export const changes = 300;
const changeIntervalMs = 10;
const checkedSeconds = 30;

export interface Build {
  readonly label: string;
  readonly folder: string;
  readonly flags: readonly string[];
}

/** The time since a process started, and the CPU time that all its threads and exited children have used. */
export interface Moment {
  readonly clockMs: number;
  readonly processorMs: number;
}

/**
 * Milliseconds from the start of the process to its lists, from the lists to the end of the first sync, and in total.
 */
export interface FirstSync {
  readonly lists: Moment;
  readonly sync: Moment;
  readonly whole: Moment;
  /** All changes together. */
  readonly changed: Moment;
  /** Undefined without third-party rules. */
  readonly checks: Moment | undefined;
  readonly anonymousMb: number;
}

interface RunOptions {
  readonly cpus: string;
  /** Number of nf_tables rules of other software. */
  readonly foreignRules: number;
  /** Number of endpoints of each Service. */
  readonly endpoints: number;
}

/** Sets up the node's links, and calls `body` with a function that copies builds. */
export async function onThisMachine<T>(
  body: (copy: (label: string, dist: string, flags?: readonly string[]) => Build) => Promise<T>,
): Promise<T> {
  shell(
    "ip link set lo up; ip link add eth0 type ifb; ip addr add 192.168.10.11/24 dev eth0; ip link set eth0 up; ip route add default via 192.168.10.1",
  );
  const copies = mkdtempSync(join(tmpdir(), "kube-ipvs-builds-"));
  try {
    const linkKind = linkKindHere();
    return await body((label, dist, flags = []) => {
      const folder = join(copies, label);
      copyOf(resolve(dist), folder, linkKind);
      return { label, folder, flags };
    });
  } finally {
    rmSync(copies, { recursive: true, force: true });
  }
}

function addForeignRules(indices: readonly number[]): void {
  const rules = indices.map(
    (index) =>
      `add rule ip other rules ip saddr 10.${index >> 8}.${index & 255}.1 tcp dport 80 return`,
  );
  const input = ["add table ip other", "add chain ip other rules", ...rules].join("\n");
  const { status } = spawnSync("nft", ["-f", "-"], { input });
  if (status !== 0) throw new Error("nft failed");
}

async function watchChecks(pid: number, foreignRules: number): Promise<Moment> {
  const startedMs = performance.now();
  const before = momentOf(pid, startedMs);
  for (let second = 1; second <= checkedSeconds; second++) {
    addForeignRules([foreignRules + second]);
    await pause(Math.max(0, startedMs + second * 1_000 - performance.now()));
  }
  return between(before, momentOf(pid, startedMs));
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
 * One start on an empty kernel. The program is killed after its first sync, because on a normal exit it would write its
 * compile cache.
 */
export async function firstSyncOf(
  { folder, flags: ownFlags }: Build,
  objects: readonly ApiObject[],
  { cpus, foreignRules, endpoints }: RunOptions,
): Promise<FirstSync> {
  shell(emptyKernel);
  if (foreignRules > 0) addForeignRules(positions(foreignRules));
  const server = await ApiServer.start({ objects });
  const [, ...flags] = ourCommand(server.url, ownFlags).argv;
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
    const anonymousMb = anonymousMbOf(pid);
    await pause(1_000);
    const before = momentOf(pid, startedMs);
    for (let turn = 0; turn < changes; turn++) {
      server.apply(...slicesOf(turn >> 1, positions(endpoints + 1 - (turn % 2)), endpoints));
      await pause(changeIntervalMs);
    }
    await pause(500);
    const changed = between(before, momentOf(pid, startedMs));
    const checks = foreignRules > 0 ? await watchChecks(pid, foreignRules) : undefined;
    return { checks, lists: listed, sync: between(listed, whole), whole, changed, anonymousMb };
  } finally {
    child.kill("SIGKILL");
    await ended;
    await server.stop();
  }
}
