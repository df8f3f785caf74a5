/** Reads facts about this process and other processes on the node. */
import { existsSync, readFileSync } from "node:fs";
import { findOtherProxy } from "../../daemon/node/other-proxy.ts";
import { missingCapabilities } from "../../daemon/process/capabilities.ts";
import type { KernelReaders } from "../../kernel/open-readers.ts";
import type { FileFacts, MountFacts, ProxyFacts } from "../node.ts";

export function readMissingCapabilities(
  status: string = textOf("/proc/self/status"),
): readonly string[] {
  const missing = missingCapabilities(status, ["NET_ADMIN", "NET_RAW"]);
  if (missing === undefined) throw new Error("/proc/self/status shows no capabilities");
  return missing;
}

export interface OwnPorts {
  readonly lockName: string;
  readonly ports: readonly number[];
}

/** Finds running proxies. If kube-ipvs is running, an answer on kube-proxy's port comes from kube-ipvs and is ignored. */
export async function readProxies(
  { sockets }: Pick<KernelReaders, "sockets">,
  { lockName, ports }: OwnPorts,
): Promise<ProxyFacts> {
  const isInstanceRunning = isLockHeld(textOf("/proc/net/unix"), lockName);
  const found = await findOtherProxy();
  const listening = sockets.listListening().filter(({ protocol }) => protocol === "TCP");
  const taken = new Set(listening.map(({ port }) => port));
  const facts = { isInstanceRunning, takenPorts: ports.filter((port) => taken.has(port)) };
  if (found?.kind === "process") {
    return { ...facts, otherProxy: `process ${found.pid} (${found.command})` };
  }
  if (found === undefined || isInstanceRunning) return facts;
  return { ...facts, otherProxy: `mode ${found.mode}, serving ${found.url}` };
}

/** In /proc/net/unix, a line ends with the socket's name. Abstract names begin with `@`. */
export function isLockHeld(sockets: string, lockName: string): boolean {
  return sockets.split("\n").some((line) => line.endsWith(` @${lockName}`));
}

export function readFiles(): FileFacts {
  const limit = /^Max open files +(\d+|unlimited)/m.exec(textOf("/proc/self/limits"))?.[1];
  const [open = "", , max = ""] = textOf("/proc/sys/fs/file-nr").trim().split(/\s+/);
  if (limit === undefined || max === "")
    throw new Error("/proc does not show the limits on open files");
  return {
    limit: limit === "unlimited" ? Number.POSITIVE_INFINITY : Number(limit),
    open: Number(open),
    max: Number(max),
  };
}

const lockPath = "/run/xtables.lock";

export function readMounts(
  modulesFolder: string | undefined,
  mounts: string = textOf("/proc/self/mountinfo"),
  environment: Readonly<Record<string, string | undefined>> = process.env,
): MountFacts {
  const isContainer =
    environment["KUBERNETES_SERVICE_HOST"] !== undefined ||
    /^\S+ \S+ \S+ \S+ \/ .* - (?:fuse-)?overlay(?:fs)? /m.test(mounts) ||
    existsSync("/run/.containerenv") ||
    existsSync("/.dockerenv");
  const points = new Set(mounts.split("\n").map((line) => line.split(" ")[4]));
  const isLockShared = !isContainer || points.has(lockPath) || points.has("/run");
  return { isContainer, isLockShared, ...(modulesFolder === undefined ? {} : { modulesFolder }) };
}

function textOf(path: string): string {
  return readFileSync(path, "latin1");
}
