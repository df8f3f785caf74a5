/**
 * Network namespaces for tests that run in this process: IPVS, ipset, iptables, conntrack, links, addresses
 * and net.* sysctls are all per namespace, so a test that makes one for itself is alone in the kernel.
 * Needs root and a /run of its own: the lab (test/lab) gives both.
 */
import { execFileSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { createRequire } from "node:module";
import { getSystemErrorMessage } from "node:util";

/** See network-namespace.c. Each takes the path of a namespace and returns 0 or an errno. */
type Addon = Readonly<Record<"create" | "enter" | "remove", (path: string) => number>>;

const ADDON = "../../../build/test/network_namespace.node";
const addon: Addon = createRequire(import.meta.url)(ADDON);

const ownNamespace = "/proc/self/ns/net";
/** Held open, so that there is a way back. */
const origin: string = `/proc/self/fd/${openSync(ownNamespace, "r")}`;

/**
 * Creates the namespace `name` (as `ip netns add`) with `lo` up, then runs `setUp`, shell lines, in it. When
 * one of them fails there is no namespace.
 */
export function createNetworkNamespace(name: string, setUp: readonly string[] = []): void {
  onNamespace("create", pathOf(name));
  if (setUp.length === 0) return;
  const present = openSync(ownNamespace, "r");
  try {
    enterNetworkNamespace(name);
    execFileSync("sh", ["-ec", setUp.join("\n")], { stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    removeNetworkNamespace(name);
    throw error;
  } finally {
    onNamespace("enter", `/proc/self/fd/${present}`);
    closeSync(present);
  }
}

/** Removes the namespace; the kernel takes everything in it along. */
export function removeNetworkNamespace(name: string): void {
  onNamespace("remove", pathOf(name));
}

/**
 * Moves this process's main thread into `name`: sockets opened and processes started from now on belong
 * to it, /proc/sys/net and /proc/net show it (with synchronous file calls; the thread pool stays behind).
 */
export function enterNetworkNamespace(name: string): void {
  onNamespace("enter", pathOf(name));
}

/** Back to where this process started. */
export function leaveNetworkNamespace(): void {
  onNamespace("enter", origin);
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

/**
 * Runs one shell script in the current namespace and returns what it prints. It has no standard input: a pipe
 * of Node.js is a socket, and bash reads `~/.bashrc` if its standard input is one.
 */
export function shell(script: string): string {
  return execFileSync("sh", ["-ec", script], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
}

function pathOf(name: string): string {
  return `/run/netns/${name}`;
}

function onNamespace(what: keyof Addon, path: string): void {
  const errno = addon[what](path);
  if (errno !== 0) {
    throw new Error(`Cannot ${what} network namespace ${path}: ${getSystemErrorMessage(-errno)}`);
  }
}
