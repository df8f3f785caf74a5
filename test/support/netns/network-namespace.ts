/**
 * Network namespaces for tests that run in this process: IPVS, ipset, iptables, conntrack, links, addresses
 * and net.* sysctls are all per namespace, so a test that makes one for itself is alone in the kernel.
 * Needs root, iproute2 and a /run of its own: the lab (test/lab) gives all three.
 */
import { execFileSync } from "node:child_process";
import { openSync } from "node:fs";
import { createRequire } from "node:module";
import { getSystemErrorMessage } from "node:util";

interface EnterAddon {
  /** Returns 0 or an errno. */
  enter(path: string): number;
}

const ADDON = "../../../build/test/enter_network_namespace.node";
const addon: EnterAddon = createRequire(import.meta.url)(ADDON);

/** Held open, so that there is a way back. */
const origin: string = `/proc/self/fd/${openSync("/proc/self/ns/net", "r")}`;

/**
 * Creates the namespace `name` (as `ip netns add`) with `lo` up, then runs `setUp`, shell lines, in it. When
 * one of them fails there is no namespace.
 */
export function createNetworkNamespace(name: string, setUp: readonly string[] = []): void {
  const inside = ["ip link set lo up", ...setUp].join("\n");
  const script = `ip netns add "$1" || exit; ip netns exec "$1" sh -ec "$2" || { ip netns delete "$1"; exit 1; }`;
  execFileSync("sh", ["-c", script, "sh", name, inside], { stdio: ["ignore", "pipe", "pipe"] });
}

/** Removes the namespace; the kernel takes everything in it along. */
export function removeNetworkNamespace(name: string): void {
  execFileSync("ip", ["netns", "delete", name], { stdio: ["ignore", "pipe", "pipe"] });
}

/**
 * Moves this process's main thread into `name`: sockets opened and processes started from now on belong
 * to it, /proc/sys/net and /proc/net show it (with synchronous file calls; the thread pool stays behind).
 */
export function enterNetworkNamespace(name: string): void {
  enterPath(`/run/netns/${name}`);
}

/** Back to where this process started. */
export function leaveNetworkNamespace(): void {
  enterPath(origin);
}

/** Runs `body` inside a new namespace and removes it afterwards, whatever happens. */
export async function withNetworkNamespace<T>(
  name: string,
  setUp: readonly string[],
  body: () => T | Promise<T>,
): Promise<T> {
  createNetworkNamespace(name, setUp);
  try {
    enterNetworkNamespace(name);
    return await body();
  } finally {
    leaveNetworkNamespace();
    removeNetworkNamespace(name);
  }
}

/** Runs one shell script in the current namespace and returns what it prints. */
export function shell(script: string): string {
  return execFileSync("sh", ["-ec", script], { encoding: "utf8" });
}

function enterPath(path: string): void {
  const errno = addon.enter(path);
  if (errno !== 0) {
    throw new Error(`Cannot enter network namespace ${path}: ${getSystemErrorMessage(-errno)}`);
  }
}
