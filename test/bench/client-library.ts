/**
 * The cost of listing a large cluster with @kubernetes/client-node's informers and with our own list and watch, for
 * docs/decisions/0017: `node test/bench/client-library.ts [SERVICES] [ENDPOINTS]`. The API server and each client are
 * separate processes. Clients run one after another, with the daemon's engine flags and without a kernel.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { CoreV1Api, DiscoveryV1Api, KubeConfig, makeInformer } from "@kubernetes/client-node";
import { ClusterSource } from "../../src/api/cluster/cluster-source.ts";
import { openConnection } from "../../src/api/cluster/open-connection.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import { clusterOf, sizeText } from "./cluster.ts";

const engineFlags = ["--max-old-space-size=1024", "--max-semi-space-size=2", "--v8-pool-size=1"];
const sampleMs = 50;
/** Time for garbage collection after the last object. */
const settleMs = 3_000;

interface Figures {
  readonly seconds: number;
  readonly longestBlockSeconds: number;
  /** CPU time of the client process, including its start. */
  readonly processorSeconds: number;
  readonly objects: number;
  /** Anonymous memory before the first request. */
  readonly loadedMb: number;
}

/** Each client reads both resources, and resolves with the number of objects when it has all of them. */
const clients: Readonly<Record<string, (url: string) => Promise<number>>> = {
  "client-node informers": readByInformers,
  "kube-ipvs": readByOurs,
};

async function readByInformers(url: string): Promise<number> {
  const config = new KubeConfig();
  const cluster = { name: "c", server: url, skipTLSVerify: true };
  config.loadFromClusterAndUser(cluster, { name: "u" });
  const [core, discovery] = [config.makeApiClient(CoreV1Api), config.makeApiClient(DiscoveryV1Api)];
  const informers = [
    makeInformer(config, "/api/v1/services", () => core.listServiceForAllNamespaces()),
    makeInformer(config, "/apis/discovery.k8s.io/v1/endpointslices", () =>
      discovery.listEndpointSliceForAllNamespaces(),
    ),
  ];
  for (const informer of informers) {
    informer.on("error", (error: unknown) => {
      throw new Error("The informer stopped", { cause: error });
    });
  }
  // start() resolves when the watch that follows the list is open.
  await Promise.all(informers.map((informer) => informer.start()));
  return informers.reduce((sum, informer) => sum + informer.list().length, 0);
}

async function readByOurs(url: string): Promise<number> {
  const clock = systemClock;
  const connection = await openConnection(
    { clock, environment: {} },
    { kubeconfig: "", master: url, userAgent: "kube-ipvs/bench" },
  );
  const dependencies = { connection, clock, log: silentLogger, random: Math.random };
  const source = new ClusterSource(dependencies, { nodeName: "node-1" });
  const { promise: synced, resolve } = Promise.withResolvers<void>();
  let missing = 3;
  let objects = 0;
  await source.start({
    onService: () => {
      objects += 1;
    },
    onEndpointSlice: () => {
      objects += 1;
    },
    onNode: () => {},
    onRefusal: () => {},
    onSynced: () => {
      missing -= 1;
      if (missing === 0) resolve();
    },
  });
  await synced;
  return objects;
}

/** Runs in the client's process: reads, prints the results as a line of JSON, and waits until it is killed. */
async function runClient(name: string, url: string): Promise<void> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const loadedMb = anonymousMb("self");
  const startedMs = performance.now();
  const objects = (await clients[name]?.(url)) ?? 0;
  const seconds = (performance.now() - startedMs) / 1000;
  await pause(100);
  const { user, system } = process.cpuUsage();
  const processorSeconds = (user + system) / 1e6;
  const longestBlockSeconds = delay.max / 1e9;
  const figures: Figures = { seconds, longestBlockSeconds, processorSeconds, objects, loadedMb };
  console.log(JSON.stringify(figures));
  await pause(2 ** 30);
}

function anonymousMb(pid: number | "self" | undefined): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^RssAnon:\s+(\d+)/m.exec(status)?.[1] ?? 0) / 1024;
}

function start(args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  process.once("exit", () => child.kill("SIGKILL"));
  return child;
}

async function firstLine(child: ChildProcess): Promise<string> {
  let text = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  while (!text.includes("\n")) {
    if (child.exitCode !== null) throw new Error(`A process exited with ${child.exitCode}`);
    await pause(sampleMs);
  }
  return text;
}

async function measure(name: string, url: string): Promise<void> {
  const client = start([...engineFlags, import.meta.filename, `--client=${name}`, url]);
  let peakMb = 0;
  const sampling = setInterval(() => {
    if (client.exitCode === null) peakMb = Math.max(peakMb, anonymousMb(client.pid));
  }, sampleMs);
  const figures = JSON.parse(await firstLine(client)) as Figures;
  await pause(settleMs);
  const settledMb = anonymousMb(client.pid);
  clearInterval(sampling);
  client.kill("SIGKILL");
  await once(client, "close");
  const { seconds, longestBlockSeconds, processorSeconds, objects, loadedMb } = figures;
  console.log(
    `${name}: ${objects} objects in ${seconds.toFixed(1)} s (${processorSeconds.toFixed(1)} s of CPU time), longest event-loop block ` +
      `${longestBlockSeconds.toFixed(2)} s, anonymous memory ${settledMb.toFixed(0)} MB ` +
      `(${loadedMb.toFixed(0)} MB before the first request), peak ${peakMb.toFixed(0)} MB`,
  );
}

async function compare(services: number, endpoints: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "client-library-bench-"));
  const objects = join(folder, "objects.json");
  writeFileSync(objects, JSON.stringify(clusterOf({ services, endpoints })));
  const script = join(import.meta.dirname, "../support/api-server/main.ts");
  const server = start([script, `--objects=${objects}`]);
  const { url } = JSON.parse(await firstLine(server)) as { readonly url: string };
  console.log(`${sizeText({ services, endpoints })}, ${process.version}`);
  for (const name of Object.keys(clients)) await measure(name, url);
  server.kill("SIGKILL");
  rmSync(folder, { recursive: true });
}

const [first = "50000", second = "5"] = process.argv.slice(2);
if (first.startsWith("--client=")) await runClient(first.slice("--client=".length), second);
else await compare(Number(first), Number(second));
