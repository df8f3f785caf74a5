/** A node in one mode on the fake kernel, with the victims' Services and a hostile tenant's objects. */
import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { EventWriter } from "../../src/api/cluster/events/event-writer.ts";
import type { ApiConnection } from "../../src/api/connection.ts";
import type { ClusterEvent } from "../../src/api/event.ts";
import { systemClock as clock } from "../../src/base/clock.ts";
import { ipFamilies, parseIpAddress } from "../../src/base/ip.ts";
import { silentLogger as log } from "../../src/base/log.ts";
import { knownSchedulers } from "../../src/base/scheduler.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import type { ModeView } from "../../src/daemon/operator/daemon-view.ts";
import { ProxyHealth } from "../../src/daemon/report/proxy-health.ts";
import { startDaemon } from "../../src/daemon/start.ts";
import { beginUserspace } from "../../src/daemon/userspace/begin-userspace.ts";
import type { Kernel } from "../../src/kernel/kernel.ts";
import { prometheusMetrics } from "../../src/metrics/prometheus-metrics.ts";
import { ClaimAges } from "../../src/plan/claims/claim-ages.ts";
import type { ClaimMemory } from "../../src/plan/claims/claim-memory.ts";
import { PortAdmission } from "../../src/plan/claims/port-admission.ts";
import { FakeKernel } from "../support/fake-kernel/fake-kernel.ts";
import { forgetParsedRules } from "../support/fake-kernel/node-state-of.ts";
import { MemorySource } from "../support/memory-source.ts";
import { ip } from "../support/records.ts";
import { countOf } from "../support/seeds.ts";
import {
  apiServer,
  apiServerPort,
  gateways,
  nodeAddresses,
  nodePorts,
  otherNode,
  type TenantStep,
  victimObjects,
} from "./hostile-tenant.ts";
import { TenantPackets } from "./tenant-packets.ts";
import { nextTurn, TurnWatch } from "./turn-watch.ts";

export type Mode = ModeView["mode"];

/** CPU time. In `make test`, other suites use the same processors, which can double it. */
const longestTurnMs = countOf({ short: 500, long: 200 });
const mostMemoryGrowth = 1.2;
const stepsBetweenMemoryChecks = 100;
/** The number of Events that a node writes immediately, and the interval between later ones; see `EventShare`. */
const eventBurst = 25;
const eventIntervalMs = 100;
/** The tenant's own Services may add a limited number of time series. */
const mostMetricLines = 3_000;

class TenantSource extends MemorySource {
  servers() {
    return [{ address: parseIpAddress(apiServer) ?? assert.fail(), port: apiServerPort }];
  }
}

interface Running {
  readonly view: ModeView;
  settled(): Promise<void>;
  stop(): Promise<void>;
}

/** Maximum values so far. */
interface Figures {
  steps: number;
  longestTurnMs: number;
  memoryGrowth: number;
  eventsRecorded: number;
  eventsWritten: number;
  metricLines: number;
}

export class TenantNode {
  readonly #mode: Mode;
  readonly #source = new TenantSource();
  readonly #kernel = new FakeKernel();
  readonly #turns = new TurnWatch();
  readonly #metrics = prometheusMetrics({ version: "0.0.0" });
  readonly #writer: EventWriter;
  readonly #objects = new Map<string, TenantStep["objects"][number]>();
  readonly #startedAtMs = clock.monotonicMs();
  readonly #figures: Figures = {
    ...{ steps: 0, longestTurnMs: 0, memoryGrowth: 0 },
    ...{ eventsRecorded: 0, eventsWritten: 0, metricLines: 0 },
  };
  #running: Running | undefined;
  #packets: TenantPackets | undefined;
  #memory = 0;

  constructor(mode: Mode) {
    this.#mode = mode;
    const connection: ApiConnection = {
      server: "https://192.168.10.5:6443",
      request: () => assert.fail("nothing is read"),
      send: async () => {
        this.#figures.eventsWritten += 1;
        return { status: 201, headers: {}, body: noBytes() };
      },
      close() {},
    };
    this.#writer = new EventWriter(
      { connection, clock, log },
      { hostname: "h", nodeName: "node-1" },
    );
  }

  async start(): Promise<void> {
    this.#source.apply(...victimObjects());
    this.#running = await this.#begin();
    this.#source.reportNodes(otherNode);
    await this.#running.settled();
    this.#packets = new TenantPackets(this.#kernel, this.#running.view);
  }

  /** Throws if the step affects other tenants. */
  async step({ isGone, objects }: TenantStep): Promise<void> {
    await this.#calm();
    // Each object is a separate watch event. Only objects that are applied together are planned in the same sync.
    if (objects.length === 1) this.#apply(isGone, objects);
    else this.#turns.exclude(() => this.#apply(isGone, objects));
    await this.#running?.settled();
    await nextTurn();
    this.#checkTurn();
    this.#turns.exclude(() => this.#packets?.check());
    this.#checkKernel();
    this.#checkEvents();
    this.#figures.steps += 1;
    if (this.#figures.steps % stepsBetweenMemoryChecks === 0) await this.#checkMemory();
  }

  #apply(isGone: boolean, objects: TenantStep["objects"]): void {
    for (const object of objects) {
      const key = `${object.kind} ${object.metadata.name}`;
      if (isGone) {
        this.#source.delete(object);
        this.#objects.delete(key);
      } else {
        this.#source.apply(object);
        this.#objects.set(key, object);
      }
    }
  }

  /** `2,000 steps, longest turn 61 ms, …`. */
  get summary(): string {
    const { steps, longestTurnMs: turnMs, memoryGrowth, ...counts } = this.#figures;
    return [
      `${steps.toLocaleString("en")} steps, longest turn ${turnMs.toFixed(0)} ms`,
      `memory ${(memoryGrowth * 100).toFixed(1)}%`,
      `${counts.eventsRecorded} Events recorded, ${counts.eventsWritten} written`,
      `${counts.metricLines} lines of metrics`,
    ].join(", ");
  }

  async stop(): Promise<void> {
    await this.#running?.stop();
    await this.#writer.stop();
    this.#turns.stop();
  }

  /** Excludes the test's own work in this turn from the measurement. */
  async #calm(): Promise<void> {
    await nextTurn();
    await nextTurn();
    this.#turns.takeLongestMs();
  }

  #checkTurn(): void {
    const turnMs = this.#turns.takeLongestMs();
    this.#figures.longestTurnMs = Math.max(this.#figures.longestTurnMs, turnMs);
    assert.ok(turnMs <= longestTurnMs, `the event loop was blocked for ${turnMs} ms`);
  }

  #checkKernel(): void {
    const { ipvs, link, operations } = this.#kernel;
    const bound = new Set<string>(link.peek());
    for (const address of [...nodeAddresses, ...gateways, apiServer])
      assert.ok(!bound.has(address), `${address} is bound`);
    for (const { virtualServer } of ipvs.peek())
      assert.ok(knownSchedulers.includes(virtualServer.scheduler), virtualServer.scheduler);
    const known = new Set(knownSchedulers.map((name) => `ip_vs_${name}`));
    for (const { action, subject } of operations.log)
      if (action === "load") assert.ok(known.has(subject), `${subject} was loaded`);
    operations.clear();
  }

  #checkEvents(): void {
    const elapsedMs = clock.monotonicMs() - this.#startedAtMs;
    const most = eventBurst + 1 + elapsedMs / eventIntervalMs;
    const { eventsWritten } = this.#figures;
    assert.ok(eventsWritten <= most, `${eventsWritten} Events were written in ${elapsedMs} ms`);
  }

  /** Without the tenant's objects, memory must be the same as before. */
  async #checkMemory(): Promise<void> {
    this.#source.delete(...this.#objects.values());
    this.#objects.clear();
    await this.#running?.settled();
    const lines = (await this.#metrics.exposition()).split("\n").length;
    this.#figures.metricLines = Math.max(this.#figures.metricLines, lines);
    assert.ok(lines <= mostMetricLines, `${lines} lines of metrics`);
    forgetParsedRules();
    const used = usedMemory();
    if (this.#memory === 0) this.#memory = used;
    const growth = used / this.#memory;
    this.#figures.memoryGrowth = Math.max(this.#figures.memoryGrowth, growth - 1);
    assert.ok(growth <= mostMemoryGrowth, `memory grew by ${Math.round((growth - 1) * 100)}%`);
  }

  readonly #record = (event: ClusterEvent): void => {
    assert.notEqual(event.subject.namespace, "victim", "an Event about a victim");
    this.#figures.eventsRecorded += 1;
    this.#writer.record(event);
  };

  /** A kernel whose answers arrive in a later turn. */
  #slowKernel(): Kernel {
    const facilities = Object.entries(this.#kernel).map(
      ([name, facility]) => [name, this.#turns.answeringLater(facility as object)] as const,
    );
    return Object.fromEntries(facilities) as unknown as Kernel;
  }

  async #begin(): Promise<Running> {
    const mode = this.#mode;
    const flags = new Map([
      ["proxy-mode", [mode]],
      ["manifests", ["/memory"]],
      ["hostname-override", ["node-1"]],
      ["cluster-cidr", ["10.244.0.0/16,fd00:244::/32"]],
      [mode === "iptables" ? "iptables-min-sync-period" : "ipvs-min-sync-period", ["0s"]],
    ]);
    const { config } = loadConfig(flags, { readFile: () => "", hostname: () => "node-1" });
    const health = new ProxyHealth(clock, 60_000);
    const kernel = this.#slowKernel();
    const parts = {
      ...{ source: this.#source, clock, log, health, metrics: this.#metrics },
      ...{ events: { record: this.#record }, claimMemory: memoryOfClaims() },
    };
    if (mode !== "userspace") {
      const makeListener = () => ({ start: async () => {}, stop: async () => {} });
      return startDaemon({ ...parts, config, kernel, makeListener });
    }
    return beginUserspace(config, {
      ...parts,
      openKernel: async () => ({ ...kernel, families: ipFamilies, whole: kernel, close() {} }),
    });
  }
}

function memoryOfClaims(): ClaimMemory {
  const ages = new ClaimAges(undefined, () => clock.nowMs() / 1_000);
  const sockets = nodePorts.flatMap((port) =>
    (["0.0.0.0", "::"] as const).map(
      (address) => ({ protocol: "TCP", address: ip(address), port }) as const,
    ),
  );
  return { ages, admission: new PortAdmission(ages, () => sockets), keep() {} };
}

async function* noBytes(): AsyncGenerator<Uint8Array> {}

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

function usedMemory(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}
