/** The kernel runs out of a resource, or another program holds one. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { requireLabKernel } from "../../support/machine-wide.ts";
import { shell } from "../../support/netns/network-namespace.ts";
import { assertNotLogged } from "../../support/not-logged.ts";
import { flushChain, labRules } from "../../support/rules-writer.ts";
import type { FaultyNode } from "../faulty-node.ts";
import type { Row, Turn } from "../row.ts";

const leastLockMs = 30_000;
/** Longer than the duration of any test. */
const mostLockSeconds = 600;
const busy = "another program holds the xtables lock";
const chain = "KUBE-SERVICES";

async function holdLock(): Promise<ChildProcess> {
  // With --no-fork, flock becomes the command. Otherwise, flock's child would keep the lock after flock is killed.
  const command = [
    "--no-fork",
    "/run/xtables.lock",
    "sh",
    "-c",
    `echo held; exec sleep ${mostLockSeconds}`,
  ];
  const child = spawn("flock", command, { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout as NonNullable<typeof child.stdout>, "data");
  shell("! flock -n /run/xtables.lock true");
  return child;
}

/** Holds the lock while `work` runs, and in the long form for at least thirty seconds. */
async function whileLocked<T>({ form }: Turn, work: () => Promise<T>): Promise<T> {
  const holder = await holdLock();
  const beginMs = performance.now();
  try {
    const result = await work();
    const leftMs = beginMs + leastLockMs - performance.now();
    if (form === "long" && leftMs > 0) await pause(leftMs);
    assert.equal(holder.exitCode, null, "The lock was released too early");
    return result;
  } finally {
    holder.kill("SIGKILL");
  }
}

/** Uses a different lock, like a program that does not know the usual one. */
function emptyChain(): void {
  shell(`export XTABLES_LOCKFILE=/run/other.lock\n${flushChain("nat", chain)}`);
}

/** Resolves when the program logs that the lock is held. nf_tables needs no lock, so its rules are repaired. */
async function rulesWait(node: FaultyNode, mark: number): Promise<void> {
  if (labRules === "nftables") return void (await node.repaired());
  await node.until("the held lock is logged", () => node.hasPrinted(busy, mark));
  assert.ok(!node.hasRules());
}

/** With iptables, rules cannot be repaired while the lock is held, but other changes continue. */
function lockRules(node: FaultyNode, turn: Turn): Promise<string> {
  return whileLocked(turn, async () => {
    await node.churn();
    const beginMs = performance.now();
    await node.until("changes are written", () => node.isRepaired());
    const tookMs = performance.now() - beginMs;
    const mark = node.mark();
    emptyChain();
    await rulesWait(node, mark);
    return `changes needed ${(tookMs / 1_000).toFixed(1)} s while it was held`;
  });
}

/** Starts the program while the lock is held. Both families must be served, although iptables rules must wait. */
async function startLocked(node: FaultyNode, turn: Turn): Promise<string> {
  node.program.kill("SIGKILL");
  await node.program.ends();
  node.churnUnseen();
  await node.restartApi();
  return whileLocked(turn, async () => {
    emptyChain();
    node.startProgram();
    await node.until("changes are written", () => node.isRepaired());
    await rulesWait(node, 0);
    assertNotLogged(node.program.output, "IP family is not supported on this node");
    return "changes were written while it was held";
  });
}

const setsLimit = "sets the kernel-wide conntrack limit";
const unloadsModules = "unloads kernel modules";
const fullMs = 3_000;
/** The limit applies to the whole kernel, but only the first network namespace can change it. */
const limitPath = "/proc/sys/net/netfilter/nf_conntrack_max";

function inFirstNamespace(command: string): string {
  requireLabKernel(setsLimit);
  return shell(`nsenter --net=/proc/1/ns/net sh -c '${command}'`);
}

async function fillConntrack(node: FaultyNode): Promise<string> {
  const before = inFirstNamespace(`cat ${limitPath}`).trim();
  const present = Number(shell("cat /proc/sys/net/netfilter/nf_conntrack_count"));
  // Connections to the API server also count, so changes must be sent before the limit is reached.
  await node.churn();
  // There are more open connections than the limit, so that none can be dropped early in favor of a new one.
  const limit = Math.ceil(present / 4);
  inFirstNamespace(`echo ${limit} > ${limitPath}`);
  const droppedBefore = droppedPackets();
  await pause(fullMs);
  inFirstNamespace(`echo ${before} > ${limitPath}`);
  const dropped = droppedPackets() - droppedBefore;
  assert.ok(dropped > 0, "the table was full, and no packet was dropped");
  return `limit ${limit} at ${present} entries, for ${fullMs / 1_000} s: ${dropped} packets dropped`;
}

/**
 * Number of new connections' packets that were dropped because the table was full. Numbers are hexadecimal, with one
 * line per processor.
 */
function droppedPackets(): number {
  const text = shell("cat /proc/net/stat/nf_conntrack").trim();
  const [header = [], ...lines] = text.split("\n").map((line) => line.trim().split(/\s+/));
  const column = header.indexOf("drop");
  return lines.reduce((sum, line) => sum + Number.parseInt(line[column] ?? "", 16), 0);
}

async function unloadModules(node: FaultyNode): Promise<string> {
  requireLabKernel(unloadsModules);
  const ofSets = labRules === "nftables" ? "nf_tables" : "ip_set";
  for (const module of ["ip_vs", "ip_vs_rr", ofSets, "nf_conntrack"]) {
    assert.match(shell(`rmmod ${module} 2>&1 || true`), /in use|is builtin/);
  }
  await node.churn();
  return "rejected by the kernel: in use or built in";
}

export const kernelRows: readonly Row[] = [
  { name: "iptables lock held", short: 1, long: 3, inject: lockRules },
  { name: "iptables lock held at startup", short: 1, long: 3, inject: startLocked },
  {
    name: "Conntrack table full",
    short: 1,
    long: 10,
    inject: fillConntrack,
    mayFail: "the kernel drops every packet of a new connection while the table is full",
    machineWide: setsLimit,
  },
  {
    name: "Modules unloaded",
    short: 1,
    long: 5,
    inject: unloadModules,
    machineWide: unloadsModules,
  },
];
