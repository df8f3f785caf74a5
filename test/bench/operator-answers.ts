/**
 * Measures how long answers to operators block the event loop. The daemon runs on a fake kernel with many Services and
 * is queried on its socket. Exits with 1 if an answer needs more processor time than allowed in one turn.
 * `node test/bench/operator-answers.ts [services] [endpoints]`
 */
import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { openOperatorSocket } from "../../src/daemon/operator/operator-socket.ts";
import { ApiContact } from "../../src/daemon/report/api-contact.ts";
import { ProxyHealth } from "../../src/daemon/report/proxy-health.ts";
import { startDaemon } from "../../src/daemon/start.ts";
import { FakeKernel } from "../support/fake-kernel/fake-kernel.ts";
import { clusterIpOf, positions, serviceOf, sliceOf } from "../support/many-services.ts";
import { MemorySource, type NamedObject } from "../support/memory-source.ts";
import { node } from "../support/objects.ts";
import { silentMetrics } from "../support/silent-metrics.ts";

const serviceCount = Number(process.argv[2] ?? 10_000);
const endpointCount = Number(process.argv[3] ?? 10);
/** With the default numbers of Services and endpoints, a question delays the daemon by at most this long. */
const mostTurnMs = 50;
const targets = [
  ...["/v1/status", "/v1/services", "/v1/services?endpoints=true", "/v1/services?connections=true"],
  // An address and port that a Service has, and ones that no Service has.
  `/v1/services?protocol=TCP&address=${clusterIpOf(5_000)}&port=80`,
  "/v1/services?protocol=TCP&address=192.0.2.1&port=81&connections=true",
  // Queries of `explain` (about a Service, an address and a loopback node port) and of `doctor`.
  ...["/v1/plan?namespace=default&name=svc-5000", "/v1/plan?sample=true"],
  ...[
    `/v1/plan?protocol=TCP&address=${clusterIpOf(5_000)}&port=80`,
    "/v1/plan?protocol=TCP&address=127.0.0.1&port=30080",
  ],
];

const folder = mkdtempSync(join(tmpdir(), "operator-bench-"));
const path = join(folder, "bench.sock");

/** On a node, the reader is a separate process. Here, it shares the event loop and discards the data. */
function ask(target: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request({ socketPath: path, path: target }, (response) => {
      let lengthBytes = 0;
      response.on("data", (chunk: Buffer) => {
        lengthBytes += chunk.length;
      });
      response.on("end", () => resolve(lengthBytes));
    });
    asked.on("error", reject);
    asked.end();
  });
}

/** Returns a function that ends the measurement and returns this thread's longest CPU time in one event-loop turn. */
function measureTurns(): () => number {
  let isEnded = false;
  let longestUs = 0;
  let last = process.threadCpuUsage();
  const sample = (): void => {
    const { user, system } = process.threadCpuUsage(last);
    longestUs = Math.max(longestUs, user + system);
    last = process.threadCpuUsage();
    if (!isEnded) setImmediate(sample);
  };
  setImmediate(sample);
  return () => {
    isEnded = true;
    return longestUs / 1_000;
  };
}

const flags = { "hostname-override": "node-1", manifests: "/memory", "ipvs-min-sync-period": "0s" };
const values = Object.entries(flags).map(([name, value]) => [name, [value]] as const);
const { config } = loadConfig(new Map(values), { readFile: () => "", hostname: () => "node-1" });
const source = new MemorySource();
const objects = [
  node(),
  ...positions(serviceCount).flatMap((index) => [
    serviceOf(index),
    sliceOf(index, positions(endpointCount)),
  ]),
];
source.apply(...(objects as readonly unknown[] as readonly NamedObject[]));
const clock = systemClock;
const health = new ProxyHealth(clock, 60_000);
const daemon = await startDaemon({
  config,
  kernel: new FakeKernel(),
  source,
  metrics: silentMetrics,
  health,
  clock,
  log: silentLogger,
});
await daemon.settled();
const { view } = daemon;
const apiContact = new ApiContact(clock, silentMetrics);
const status = { clock, config, health, apiContact, startedAtMs: 0, view };
const stop = await openOperatorSocket(path, {
  clock,
  log: silentLogger,
  view: () => view,
  configuration: () => ({}),
  status: () => status,
});
for (const target of targets) {
  await pause(500);
  const heapBefore = process.memoryUsage().heapUsed;
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const endTurns = measureTurns();
  const beganMs = performance.now();
  const lengthBytes = await ask(target);
  const elapsedMs = performance.now() - beganMs;
  delay.disable();
  const turnMs = endTurns();
  const megabytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);
  console.log(
    `${target}: ${megabytes(lengthBytes)} MB in ${elapsedMs.toFixed(0)} ms, longest event-loop delay ` +
      `${(delay.max / 1e6).toFixed(1)} ms, of which the processor worked ${turnMs.toFixed(1)} ms; 99% ${(delay.percentile(99) / 1e6).toFixed(1)} ms, ` +
      `heap ${megabytes(process.memoryUsage().heapUsed - heapBefore)} MB more (not collected)`,
  );
  if (turnMs > mostTurnMs) {
    console.log(`${target}: more than ${mostTurnMs} ms in one turn`);
    process.exitCode = 1;
  }
}
await stop();
await daemon.stop();
rmSync(folder, { recursive: true });
