/**
 * Network namespaces for tests that run in this process. Each namespace has separate IPVS, ipset, iptables, conntrack,
 * links, addresses and net.* sysctls, so a test with its own namespace does not affect others. Needs root and its own
 * /run, which the lab (test/lab) provides.
 */
import { execFileSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { createRequire } from "node:module";
import { getSystemErrorMessage } from "node:util";

/** See network-namespace.c. Each function takes the path of a namespace and returns 0 or an errno. */
type Addon = Readonly<Record<"create" | "enter" | "remove", (path: string) => number>>;

const ADDON = "../../../build/test/network_namespace.node";
const addon: Addon = createRequire(import.meta.url)(ADDON);

const ownNamespace = "/proc/self/ns/net";
/** The original namespace, kept open so that the process can return to it. */
const origin: string = `/proc/self/fd/${openSync(ownNamespace, "r")}`;

/**
 * Creates the namespace `name` with `lo` up, as `ip netns add` does, then runs the shell lines `setUp` in it. If one of
 * them fails, the namespace is removed.
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

/** Removes the namespace and everything in it. */
export function removeNetworkNamespace(name: string): void {
  onNamespace("remove", pathOf(name));
}

/**
 * Moves this process's main thread into `name`. New sockets and processes then belong to the namespace, and
 * /proc/sys/net and /proc/net show it. Use only synchronous file calls, because the thread pool remains in the old
 * namespace.
 */
export function enterNetworkNamespace(name: string): void {
  onNamespace("enter", pathOf(name));
}

/** Returns to this process's original namespace. */
export function leaveNetworkNamespace(): void {
  onNamespace("enter", origin);
}

/** Runs `body` inside a new namespace, and always removes the namespace afterwards. */
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
 * Runs a shell script in the current namespace and returns its output. The script has no standard input, because
 * Node.js's pipes are sockets, and bash reads `~/.bashrc` if its standard input is a socket.
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
