/** The kernel is short of something, or others hold it. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { shell } from "../../support/netns/network-namespace.ts";
import type { Row, Turn } from "../row.ts";
import type { World } from "../world.ts";

/** Longer than anything in the row takes. */
const lockSeconds = 30;

async function holdLock(): Promise<ChildProcess> {
  const script = `echo held; exec sleep ${lockSeconds}`;
  const child = spawn("flock", ["/run/xtables.lock", "sh", "-c", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout as NonNullable<typeof child.stdout>, "data");
  return child;
}

/** What needs no rules goes on while the lock is held; in the long form it is held to its end. */
async function lockRules(world: World, { form }: Turn): Promise<string> {
  const holder = await holdLock();
  const closed = once(holder, "close");
  shell("! flock -n /run/xtables.lock true");
  const beginMs = performance.now();
  await world.churn();
  while (!world.isRepaired()) {
    assert.equal(holder.exitCode, null, "Changes waited for the lock of iptables");
    await pause(50);
  }
  const tookMs = performance.now() - beginMs;
  if (form === "short") holder.kill("SIGKILL");
  await closed;
  return `changes needed ${(tookMs / 1_000).toFixed(1)} s while it was held`;
}

/** Counted in the whole kernel; only the first network namespace may write it. */
const limitPath = "/proc/sys/net/netfilter/nf_conntrack_max";

function inFirstNamespace(command: string): string {
  return shell(`nsenter --net=/proc/1/ns/net sh -c '${command}'`);
}

async function fillConntrack(world: World): Promise<string> {
  const before = inFirstNamespace(`cat ${limitPath}`).trim();
  const present = Number(shell("cat /proc/sys/net/netfilter/nf_conntrack_count"));
  // The connections to the API server count too: who is to change something must say so before.
  await world.churn();
  // Those that stand are more than the limit, so that none can be dropped early for a new one.
  const limit = Math.ceil(present / 4);
  inFirstNamespace(`echo ${limit} > ${limitPath}`);
  await pause(3_000);
  inFirstNamespace(`echo ${before} > ${limitPath}`);
  return `limit ${limit} at ${present} entries, for 3 s`;
}

async function unloadModules(world: World): Promise<string> {
  for (const module of ["ip_vs", "ip_vs_rr", "ip_set", "nf_conntrack"]) {
    shell(`! rmmod ${module} 2>/dev/null`);
  }
  await world.churn();
  return "refused by the kernel: in use";
}

export const kernelRows: readonly Row[] = [
  { name: "iptables lock held for 30 s", short: 1, long: 3, inject: lockRules },
  {
    name: "Conntrack table full",
    short: 1,
    long: 10,
    inject: fillConntrack,
    mayFail: "the kernel drops every packet of a new connection while the table is full",
  },
  { name: "Modules unloaded", short: 1, long: 3, inject: unloadModules },
];
