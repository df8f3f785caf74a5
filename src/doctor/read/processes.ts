/** This process and the others on the node. */
import { existsSync, readFileSync } from "node:fs";
import { findOtherProxy } from "../../daemon/node/other-proxy.ts";
import type { FileFacts, MountFacts, ProxyFacts } from "../facts.ts";

/** Bits of linux/capability.h. */
const capabilities = [
  { name: "NET_ADMIN", bit: 12n },
  { name: "NET_RAW", bit: 13n },
] as const;

export function readMissingCapabilities(
  status: string = textOf("/proc/self/status"),
): readonly string[] {
  const digits = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  if (digits === undefined) throw new Error("/proc/self/status shows no capabilities");
  const effective = BigInt(`0x${digits}`);
  return capabilities.filter(({ bit }) => ((effective >> bit) & 1n) === 0n).map(({ name }) => name);
}

export interface OwnPorts {
  readonly lockName: string;
  readonly ports: readonly number[];
}

/** An answer on kube-proxy's port is our own where an instance runs. */
export async function readProxies({ lockName, ports }: OwnPorts): Promise<ProxyFacts> {
  const isInstanceRunning = isLockHeld(textOf("/proc/net/unix"), lockName);
  const found = await findOtherProxy();
  const taken = listeningPorts(["/proc/net/tcp", "/proc/net/tcp6"].map(textOrNone).join("\n"));
  const facts = { isInstanceRunning, takenPorts: ports.filter((port) => taken.has(port)) };
  if (found?.kind === "process") {
    return { ...facts, otherProxy: `process ${found.pid} (${found.command})` };
  }
  if (found === undefined || isInstanceRunning) return facts;
  return { ...facts, otherProxy: `mode ${found.mode}, serving ${found.url}` };
}

/** /proc/net/unix has abstract names with `@` in front, as the last word of a line. */
export function isLockHeld(sockets: string, lockName: string): boolean {
  return sockets.split("\n").some((line) => line.endsWith(` @${lockName}`));
}

/** `   0: 0100007F:2808 00000000:0000 0A …`: 0A is LISTEN, ports are hexadecimal. */
export function listeningPorts(table: string): ReadonlySet<number> {
  const found = table.matchAll(/^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 0A /gm);
  return new Set([...found].map(([, port = ""]) => Number.parseInt(port, 16)));
}

export function readFiles(): FileFacts {
  const limit = /^Max open files +(\d+|unlimited)/m.exec(textOf("/proc/self/limits"))?.[1];
  const [open = "", , max = ""] = textOf("/proc/sys/fs/file-nr").trim().split(/\s+/);
  if (limit === undefined || max === "") throw new Error("/proc shows no limits of open files");
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

/** A kernel without IPv6 has no /proc/net/tcp6. */
function textOrNone(path: string): string {
  return existsSync(path) ? textOf(path) : "";
}
