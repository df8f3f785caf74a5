import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { get } from "node:http";
import { basename } from "node:path";
import { attempt } from "../../base/attempt.ts";
import { type Clock, sleep } from "../../base/clock.ts";
import { hostPort } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import type { ListenAddress } from "../../config/config.ts";
import { type ListeningSocket, listListeningSockets } from "../../kernel/listening-sockets.ts";

/** A kube-proxy that is alive on this node. */
export type OtherProxy =
  | { readonly kind: "process"; readonly pid: number; readonly command: string }
  /**
   * A server that answers like kube-proxy on its port. Its process is not visible, because it runs in a different PID
   * namespace or inside k3s.
   */
  | { readonly kind: "port"; readonly url: string; readonly mode: string };

/** Thrown if kube-proxy is running on this node, because the two proxies would keep reverting each other's changes. */
export class OtherProxyError extends Error {
  override readonly name = "OtherProxyError";

  constructor(proxy: OtherProxy) {
    super(
      `Cannot start while ${proxyText(proxy)}; remove it from this node first, ` +
        "or set --kube-ipvs-wait-for-kube-proxy",
    );
  }
}

/** For example: `kube-proxy is running: process 812 (/usr/local/bin/kube-proxy …)`. */
export function proxyText(proxy: OtherProxy): string {
  const who =
    proxy.kind === "process"
      ? `process ${proxy.pid} (${proxy.command})`
      : `mode ${proxy.mode}, serving ${proxy.url}`;
  return `kube-proxy is running: ${who}`;
}

export interface ProxySearch {
  readonly procPath: string;
  readonly ownPid: number;
  /** kube-proxy's metrics address. */
  readonly modeUrl: string;
  readonly answerTimeoutMs: number;
  /** Lists the listening sockets in our network namespace. */
  readonly listening: () => readonly ListeningSocket[];
}

const thisNode: ProxySearch = {
  procPath: "/proc",
  ownPid: process.pid,
  modeUrl: "http://127.0.0.1:10249/proxyMode",
  answerTimeoutMs: 500,
  listening: listListeningSockets,
};

/**
 * Looks for a kube-proxy in our network namespace. Call this before opening our own metrics port, because our metrics
 * server would answer the same request.
 */
export async function findOtherProxy(
  search: ProxySearch = thisNode,
): Promise<OtherProxy | undefined> {
  return findProcess(search) ?? (isRootListening(search) ? await askMode(search) : undefined);
}

/**
 * Like {@link findOtherProxy}, but also sends a request to the configured metrics address, because kube-proxy may use
 * the same configuration.
 */
export async function findOtherProxyAt(metrics: ListenAddress): Promise<OtherProxy | undefined> {
  const loopbacks = new Map([
    ["0.0.0.0", "127.0.0.1"],
    ["::", "::1"],
  ]);
  const host = loopbacks.get(metrics.address) ?? metrics.address;
  const modeUrl = `http://${hostPort(host, metrics.port)}/proxyMode`;
  return (await findOtherProxy()) ?? (await findOtherProxy({ ...thisNode, modeUrl }));
}

/**
 * kube-proxy is considered stopped when this many consecutive checks have not found it, because it also disappears
 * briefly during a restart.
 */
const checksUntilGone = 5;
const checkPeriodMs = 1_000;

/** Resolves when several consecutive checks have not found kube-proxy. Rejects when `signal` aborts. */
export async function otherProxyGone(
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
  signal: AbortSignal,
  find: () => Promise<OtherProxy | undefined>,
): Promise<void> {
  const first = await find();
  if (first === undefined) return;
  log.info("Waiting for kube-proxy to stop", { proxy: proxyText(first) });
  for (let absent = 0; absent < checksUntilGone; ) {
    await sleep(clock, checkPeriodMs, signal);
    signal.throwIfAborted();
    absent = (await find()) === undefined ? absent + 1 : 0;
  }
  log.info("kube-proxy has stopped, taking over");
}

/**
 * Whether a root process is listening on the port. kube-proxy runs as root, and an unprivileged process that imitates
 * its answer must not keep us from starting.
 */
function isRootListening({ modeUrl, listening }: ProxySearch): boolean {
  const { hostname, port } = new URL(modeUrl);
  const sockets = (attempt(listening) ?? []).filter(
    (one) => one.protocol === "TCP" && one.port === Number(port),
  );
  // The kernel delivers to the socket with the most specific address.
  for (const address of [hostname, "0.0.0.0", "::"]) {
    const found = sockets.filter((one) => one.address === address);
    if (found.length > 0) return found.some(({ uid }) => uid === 0);
  }
  return false;
}

function findProcess({ procPath, ownPid }: ProxySearch): OtherProxy | undefined {
  const ownNamespace = attempt(() => readlinkSync(`${procPath}/${ownPid}/ns/net`));
  for (const entry of attempt(() => readdirSync(procPath)) ?? []) {
    if (!/^\d+$/.test(entry) || Number(entry) === ownPid) continue;
    const command = kubeProxyCommand(`${procPath}/${entry}`);
    if (command === undefined) continue;
    const namespace = attempt(() => readlinkSync(`${procPath}/${entry}/ns/net`));
    // If the namespace cannot be read, skip the process. The request to the port then shows whether kube-proxy is
    // running.
    if (namespace === undefined || namespace !== ownNamespace) continue;
    return { kind: "process", pid: Number(entry), command };
  }
  return undefined;
}

/**
 * The process's command line if the process is kube-proxy. Our own process may also be named kube-proxy, but its
 * executable is Node.js.
 */
function kubeProxyCommand(path: string): string | undefined {
  const words = attempt(() => readFileSync(`${path}/cmdline`, "latin1"))?.split("\0") ?? [];
  if (basename(words[0] ?? "") !== "kube-proxy") return undefined;
  const program = attempt(() => readlinkSync(`${path}/exe`));
  if (program !== undefined && /^node/.test(basename(program))) return undefined;
  return words
    .join(" ")
    .trim()
    .slice(0, 200)
    .replace(/[^\x20-\x7e]/g, "?");
}

/** Resolves to undefined unless the answer names a proxy mode. */
function askMode({
  modeUrl: url,
  answerTimeoutMs: timeout,
}: ProxySearch): Promise<OtherProxy | undefined> {
  return new Promise((resolve) => {
    const request = get(url, { timeout, agent: false }, (response) => {
      let body = "";
      response.setEncoding("latin1");
      response.on("data", (text: string) => {
        body += text;
        if (body.length > 100) request.destroy();
      });
      response.on("close", () => {
        const mode = /^(?:iptables|ipvs|nftables|userspace)$/.exec(body.trim())?.[0];
        resolve(mode === undefined ? undefined : { kind: "port", url, mode });
      });
    });
    request.on("timeout", () => request.destroy());
    request.on("error", () => resolve(undefined));
  });
}
