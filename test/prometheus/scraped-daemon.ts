/** Runs the complete daemon (cluster client, Events, both servers) on a fake kernel, with a test API server. */
import type { EventRecorder } from "../../src/api/event.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import { gateStates } from "../../src/config/feature-gates.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { startServers } from "../../src/daemon/http/servers.ts";
import { openSource } from "../../src/daemon/process/open-source.ts";
import { ApiContact } from "../../src/daemon/report/api-contact.ts";
import { ProxyHealth } from "../../src/daemon/report/proxy-health.ts";
import { startDaemon } from "../../src/daemon/start.ts";
import { prometheusMetrics } from "../../src/metrics/prometheus-metrics.ts";
import { ApiServer } from "../support/api-server/api-server.ts";
import { FakeKernel } from "../support/fake-kernel/fake-kernel.ts";
import { endpointSlice, node, service, servicePort, slicePort } from "../support/objects.ts";
import { freePort } from "./free-port.ts";

const activityMs = 250;
/** Status codes that the API server returns to the first restarted watches. */
const interruptions = [302, 500];
/** The API server's version. It differs from the kube-proxy release that kube-ipvs is modeled on. */
export const clusterVersion = "v1.30.4";

/** The running daemon. */
export interface ScrapedDaemon {
  /** `127.0.0.1:10249`. */
  readonly metricsAddress: string;
  readonly healthAddress: string;
  /** Starts continuous changes and requests. */
  keepBusy(): void;
  stop(): Promise<void>;
}

/** Starts the daemon and waits for the first sync. */
export async function startScrapedDaemon(): Promise<ScrapedDaemon> {
  const server = await ApiServer.start({ objects: [node(), dns(), slice(1)] });
  server.gitVersion = clusterVersion;
  const [metricsAddress, healthAddress] = [await address(), await address()];
  const { config, object } = loadConfig(flagsOf({ server, metricsAddress, healthAddress }), {
    hostname: () => "node-1",
    readFile: () => "",
  });
  const clock = systemClock;
  const metrics = prometheusMetrics({
    version: "0.0.0",
    featureGates: gateStates(config.featureGates),
  });
  const parts = { clock, log: silentLogger, metrics, health: new ProxyHealth(clock, 60_000) };
  const opened = await openSource(config, { ...parts, observer: new ApiContact(clock, metrics) });
  const rest = { shown: { object: () => object, flags: new Map() }, setVerbosity: () => {} };
  const stopServers = await startServers({ ...parts, ...rest, events: opened.events }, config);
  const kernel = new FakeKernel();
  const daemon = await startDaemon({ ...parts, ...opened, config, kernel });
  await daemon.settled();
  let stopActivity = (): void => {};
  const begin = (): void => {
    stopActivity = keepBusy(server, opened.events);
  };
  const stop = async (): Promise<void> => {
    stopActivity();
    await daemon.stop();
    await stopServers();
    await opened.close();
    await server.stop();
  };
  return { metricsAddress, healthAddress, keepBusy: begin, stop };
}

async function address(): Promise<string> {
  return `127.0.0.1:${await freePort()}`;
}

function flagsOf(addresses: {
  readonly server: ApiServer;
  readonly metricsAddress: string;
  readonly healthAddress: string;
}): ReadonlyMap<string, readonly string[]> {
  return new Map([
    ["master", [addresses.server.url]],
    ["hostname-override", ["node-1"]],
    ["metrics-bind-address", [addresses.metricsAddress]],
    ["healthz-bind-address", [addresses.healthAddress]],
    ["ipvs-min-sync-period", ["0s"]],
  ]);
}

/**
 * A UDP Service, so that conntrack is also checked. Its policy Local sets the metrics for ports without local
 * endpoints.
 */
function dns(): ReturnType<typeof service> {
  const ports = [servicePort({ name: "dns", protocol: "UDP", port: 53 })];
  return service({ ports, spec: { internalTrafficPolicy: "Local" } });
}

/** The annotation contains the time at which the latency measurement starts. */
function slice(turn: number): ReturnType<typeof endpointSlice> {
  const annotations = {
    "endpoints.kubernetes.io/last-change-trigger-time": new Date().toISOString(),
  };
  return endpointSlice({
    metadata: { annotations },
    endpoints: [`10.244.2.${1 + (turn % 200)}`],
    ports: [slicePort({ name: "dns", protocol: "UDP", port: 53 })],
  });
}

/** Changes endpoints, records Events, interrupts watches, and provokes responses of every status class. */
function keepBusy(server: ApiServer, events: EventRecorder): () => void {
  let turn = 1;
  const timer = setInterval(() => {
    turn += 1;
    server.apply(slice(turn));
    const subject = { kind: "Service", namespace: "default", name: `s${turn}` } as const;
    events.record({ type: "Normal", reason: "Turn", action: "Test", subject, note: "" });
    if (turn > interruptions.length + 1) return;
    // Forces a new list by deleting the history, and provokes a response of each status class without increasing retry
    // delays.
    server.faults.add({ on: "watch", effect: "status", code: interruptions[turn - 2] ?? 500 });
    server.store.compact();
    server.endWatches();
  }, activityMs);
  return () => clearInterval(timer);
}
