/** Raw bytes to each of the program's listeners, on loopback. */

import assert from "node:assert/strict";
import { type Clock, systemClock } from "../../../src/base/clock.ts";
import type { IpAddress } from "../../../src/base/ip.ts";
import { silentLogger } from "../../../src/base/log.ts";
import { healthResponder } from "../../../src/daemon/http/health-server.ts";
import { HttpListener, type HttpResponder } from "../../../src/daemon/http/http-listener.ts";
import { metricsResponder } from "../../../src/daemon/http/metrics-server.ts";
import { ServiceHealthServers } from "../../../src/daemon/http/service-health.ts";
import { ProxyHealth } from "../../../src/daemon/report/proxy-health.ts";
import { prometheusMetrics } from "../../../src/metrics/prometheus-metrics.ts";
import { planService } from "../../support/plan-at-once.ts";
import { endpointRecord, planOptions, serviceRecord, sliceRecord } from "../../support/records.ts";
import { silentMetrics } from "../../support/silent-metrics.ts";
import { readCorpusTexts } from "../corpus.ts";
import { mutatedTexts } from "../mutations.ts";
import { ask, statusesIn } from "../raw-http.ts";
import type { FuzzTarget, Verdict } from "../target.ts";

const address = { address: "127.0.0.1" as IpAddress, port: 0 };
const clock = systemClock;
/** A clock that ends a profile of several seconds immediately. */
const hurried: Clock = { ...clock, after: (_delayMs, callback) => clock.after(0, callback) };
const health = new ProxyHealth(clock, 60_000);

function metricsPages(enableProfiling: boolean): HttpResponder {
  const metrics = prometheusMetrics({ version: "0.0.0" });
  const shown = { object: () => ({}), flags: new Map<string, string>() };
  return metricsResponder(
    { clock: hurried, metrics, shown, setVerbosity() {} },
    { mode: "ipvs", enableProfiling, featureGates: new Map() },
  );
}

/** The responder of a Service's health-check node port, from the code that opens the port. */
async function serviceHealth(): Promise<HttpResponder> {
  let responder: HttpResponder | undefined;
  const servers = new ServiceHealthServers({
    clock,
    log: silentLogger,
    health,
    makeListener: ({ respond }) => {
      responder = respond;
      return { start: async () => {}, stop: async () => {} };
    },
  });
  const gate = serviceRecord({
    type: "LoadBalancer",
    isExternalPolicyLocal: true,
    healthCheckNodePort: 32_000,
  });
  const slice = sliceRecord([endpointRecord("10.244.1.10", { nodeName: "node-1" })]);
  for (const plan of planService(gate.name, gate, [slice], planOptions())) servers.note(plan);
  await servers.serve(new Map([["IPv4", [address.address]]]));
  assert.ok(responder !== undefined);
  return responder;
}

/** Status codes of rejections. Other unsuccessful codes are findings. */
const refusals = [400, 403, 404, 405, 406, 408, 409, 413, 417, 431];
const others = [100, 302, 503];

function verdictOn(answer: string): Verdict {
  const statuses = statusesIn(answer);
  if (statuses === undefined) return "refused";
  for (const status of statuses) {
    assert.ok([200, ...refusals, ...others].includes(status), `${status}`);
  }
  return statuses.includes(200) || statuses.includes(503) ? "taken" : "refused";
}

/** Opens the listeners with the first input. Inputs are sent to the listeners in turn. */
class Listeners {
  readonly #makeResponders: () => readonly (HttpResponder | Promise<HttpResponder>)[];
  #open: Promise<readonly HttpListener[]> | undefined;
  #turn = 0;

  constructor(makeResponders: () => readonly (HttpResponder | Promise<HttpResponder>)[]) {
    this.#makeResponders = makeResponders;
  }

  async run(text: string): Promise<Verdict> {
    this.#open ??= this.#start();
    const listeners = await this.#open;
    this.#turn += 1;
    const port = listeners[this.#turn % listeners.length]?.port ?? 0;
    return verdictOn(await ask({ port, host: "127.0.0.1" }, text));
  }

  async stop(): Promise<void> {
    for (const listener of (await this.#open) ?? []) await listener.stop();
  }

  async #start(): Promise<readonly HttpListener[]> {
    const responders = await Promise.all(this.#makeResponders());
    const listeners = responders.map((respond, index) => {
      const options = { name: `server ${index}`, address, isFailureFatal: true, respond };
      return new HttpListener({ clock, log: silentLogger }, options);
    });
    for (const listener of listeners) await listener.start();
    return listeners;
  }
}

function corpusOf(name: string): readonly string[] {
  return readCorpusTexts(name).map((text) => text.replaceAll("\n", "\r\n"));
}

function targetOf(
  name: string,
  kept: readonly string[],
  makeResponders: () => readonly (HttpResponder | Promise<HttpResponder>)[],
  unchanged: readonly string[] = [],
): FuzzTarget<string> {
  const listeners = new Listeners(makeResponders);
  return {
    name,
    isDecoder: false,
    kept: [...kept, ...unchanged],
    inputs: mutatedTexts(kept),
    run: (text) => listeners.run(text),
    stop: () => listeners.stop(),
  };
}

export const targets: readonly FuzzTarget<string>[] = [
  targetOf("http-requests", corpusOf("http-requests"), () => [
    healthResponder(health, clock, silentMetrics),
    metricsPages(false),
  ]),
  targetOf(
    "http-debug",
    corpusOf("http-debug"),
    () => [metricsPages(true)],
    // A profile takes some time, so these inputs are only tried unmodified.
    corpusOf("http-profile"),
  ),
  targetOf("http-service-health", corpusOf("http-requests"), () => [serviceHealth()]),
];
