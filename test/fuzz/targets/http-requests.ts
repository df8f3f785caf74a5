/** Raw bytes to a listener of ours, on loopback. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { systemClock } from "../../../src/base/clock.ts";
import type { IpAddress } from "../../../src/base/ip.ts";
import { silentLogger } from "../../../src/base/log.ts";
import { healthResponder } from "../../../src/daemon/health-server.ts";
import { HttpListener } from "../../../src/daemon/http-listener.ts";
import { metricsResponder } from "../../../src/daemon/metrics-server.ts";
import { ProxyHealth } from "../../../src/daemon/proxy-health.ts";
import { silentMetrics } from "../../../src/metrics/metrics.ts";
import { PrometheusMetrics } from "../../../src/metrics/prometheus-metrics.ts";
import { readCorpusTexts } from "../corpus.ts";
import { mutatedTexts } from "../mutations.ts";
import type { FuzzTarget, Verdict } from "../target.ts";

const address = { address: "127.0.0.1" as IpAddress, port: 0 };
const timeoutMs = 20_000;
const clock = systemClock;
const metrics = new PrometheusMetrics(clock, { version: "0.0.0", kubernetesVersion: "1.36.2" });
const shown = { object: {}, flags: new Map() } as never;
const noOptions = { isProfilingEnabled: false, featureGates: new Map() };
const responders = [
  healthResponder(new ProxyHealth(clock, 60_000), clock, silentMetrics),
  metricsResponder({ clock, metrics, shown, setVerbosity() {} }, noOptions),
];
const listeners = responders.map(
  (respond, index) =>
    new HttpListener(
      { clock, log: silentLogger },
      { name: `server ${index}`, address, isFailureFatal: true, respond },
    ),
);
let started: Promise<unknown> | undefined;
let turn = 0;

/** The other side says that it has said all: an answer, or none, and the end must come. */
function ask(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect({ port, host: "127.0.0.1" });
    socket.setTimeout(timeoutMs, () => reject(new Error("no end came")));
    socket.on("data", (chunk) => {
      answer += chunk.toString("latin1");
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(answer));
    socket.end(text);
  });
}

const kept = readCorpusTexts("http-requests").map((text) => text.replaceAll("\n", "\r\n"));

async function run(text: string): Promise<Verdict> {
  started ??= Promise.all(listeners.map((listener) => listener.start()));
  await started;
  turn += 1;
  const port = listeners[turn % listeners.length]?.port ?? 0;
  const answer = await ask(port, text);
  if (answer === "") return "refused";
  const statuses = [...answer.matchAll(/^HTTP\/1\.1 (\d+) /gm)].map(([, status]) => Number(status));
  assert.ok(statuses.length > 0, answer.slice(0, 200));
  for (const status of statuses) {
    assert.ok([100, 200, 400, 404, 405, 408, 413, 417, 431, 503].includes(status), `${status}`);
  }
  return statuses.includes(200) || statuses.includes(503) ? "taken" : "refused";
}

export const targets: readonly FuzzTarget<string>[] = [
  {
    name: "http-requests",
    isDecoder: false,
    kept,
    inputs: mutatedTexts(kept),
    run,
    stop: async () => {
      for (const listener of listeners) await listener.stop();
    },
  },
];
