/**
 * Plays a scenario with one fault, and judges packets after every change of the fake kernel. Exposed is what a change
 * lets through that did not get through before it, and what still gets through after a sync that knew all outcomes.
 */
import assert from "node:assert/strict";
import type { ServiceRecord } from "../../../src/api/objects.ts";
import { familyOf } from "../../../src/base/ip.ts";
import { planEmptyRules } from "../../../src/plan/rules.ts";
import { nothingRecorded } from "../../../src/reconcile/ownership/classify.ts";
import { removeAll } from "../../../src/reconcile/remove-all.ts";
import { FakeClock } from "../fake-clock.ts";
import { FakeKernel } from "../fake-kernel/fake-kernel.ts";
import { type Operation, operationText } from "../fake-kernel/operations.ts";
import { iptablesText } from "../fake-kernel/state-text.ts";
import { Bench } from "../reconcile-bench.ts";
import { endpointRecord, ip } from "../records.ts";
import { type Fault, faultsOf, pairsOf } from "./faults.ts";
import { fatesOf } from "./judge.ts";
import { type Probe, probesOf } from "./probes.ts";
import type { Scenario } from "./scenarios.ts";

export interface Exposure {
  readonly kind: "opened" | "left open";
  readonly probe: string;
  /** The change, or the sync, after which it got through. */
  readonly after: string;
}

export interface Run {
  readonly exposures: readonly Exposure[];
  /** The kernel in the end. */
  readonly state: string;
  /** Everything that was asked of the kernel since the scenario began. */
  readonly requests: readonly (readonly Operation[])[];
}

/** Syncs while the fault lasts; a second apart, but for the second one, which follows at once. */
const syncsWithFault = 4;
/** Longer than the longest pause of a retry. */
const longPauseMs = 700_000;

/** Without a fault, then with each single one, or with each `share`-th. */
export async function* playWithFaults(
  scenario: Scenario,
  share: number = 1,
): AsyncGenerator<{ readonly name: string; readonly run: Run }> {
  const faultless = await playScenario(scenario, undefined);
  yield { name: `${scenario.name} | no fault`, run: faultless };
  for (const [index, fault] of faultsOf(faultless.requests).entries()) {
    if (index % share !== 0) continue;
    yield { name: `${scenario.name} | ${fault.name}`, run: await playScenario(scenario, fault) };
  }
}

/** With each pair of changes that are rejected for good. */
export async function* playWithPairs(
  scenario: Scenario,
): AsyncGenerator<{ readonly name: string; readonly run: Run }> {
  const { requests } = await playScenario(scenario, undefined);
  for (const fault of pairsOf(faultsOf(requests))) {
    yield { name: `${scenario.name} | ${fault.name}`, run: await playScenario(scenario, fault) };
  }
}

async function playScenario(scenario: Scenario, fault: Fault | undefined): Promise<Run> {
  const play = new Play(scenario);
  await play.prepare();
  const endFault = fault?.begin(play.kernel);
  await play.goOn(syncsWithFault, (index) => (index === 0 ? 0 : 1_000));
  endFault?.();
  await play.goOn(4, () => longPauseMs);
  const { requests } = play.kernel.operations;
  return { exposures: play.exposures, state: play.state(), requests };
}

class Play {
  readonly kernel: FakeKernel = new FakeKernel();
  readonly exposures: Exposure[] = [];
  readonly #clock = new FakeClock();
  readonly #scenario: Scenario;
  readonly #probes: readonly Probe[];
  #bench: Bench;
  /** By the probe's place: whether it got through when it was tried last. */
  #got: readonly boolean[] = [];

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    this.#probes = probesOf(scenario.before ?? [], scenario.after);
    this.#bench = new Bench(this.kernel, {}, { clock: this.#clock });
  }

  async prepare(): Promise<void> {
    const { before, after, damage, isRestarted } = this.#scenario;
    if (before !== undefined) {
      this.#put(before);
      await this.#bench.sync();
      await this.#bench.sync();
    }
    damage?.(this.kernel);
    this.#got = this.#tryAll();
    this.kernel.operations.clear();
    this.kernel.operations.onChanged = (operation) => this.#judge(operationText(operation));
    if (isRestarted) this.#restart();
    for (const { name } of before ?? []) {
      if (!after.some((service) => service.name === name)) this.#bench.drop(name);
    }
    this.#put(after);
  }

  async goOn(syncs: number, pauseBefore: (index: number) => number): Promise<void> {
    for (let index = 0; index < syncs; index += 1) {
      await this.#clock.advance(pauseBefore(index));
      const knewAll = await this.#step();
      if (this.kernel.operations.hasCrashed) {
        this.kernel.operations.revive();
        this.#restart();
      } else if (knewAll) this.#noteOpen(`sync ${index + 1}`);
    }
  }

  state(): string {
    return (
      this.#bench.state() + iptablesText(this.kernel, "IPv4") + iptablesText(this.kernel, "IPv6")
    );
  }

  /** Says whether the outcome of every request is known. */
  async #step(): Promise<boolean> {
    if (this.#scenario.isCleanUp) return this.#cleanUp();
    try {
      if (!this.#bench.reconciler.needsObservation) {
        await this.#bench.checkRules();
        await this.#bench.verify();
      }
    } catch {
      assert.ok(this.kernel.operations.hasCrashed, "reading fails after a crash only");
      return false;
    }
    return (await this.#bench.sync()).failures.length === 0;
  }

  async #cleanUp(): Promise<boolean> {
    const options = { isMasqueradeAll: false, masqueradeMark: 0x4000 };
    const families = ["IPv4", "IPv6"] as const;
    const { failures } = await removeAll(this.kernel, this.#clock, {
      rules: new Map(families.map((family) => [family, planEmptyRules(family, options)])),
      nodeAddresses: new Set([ip("192.168.10.11")]),
      ownership: { foreignVirtualServers: "keep", excludeCidrs: [] },
      recorded: nothingRecorded,
      hasIpvs: true,
    });
    return failures.length === 0;
  }

  #restart(): void {
    this.#bench = new Bench(this.kernel, {}, { clock: this.#clock });
    this.#put(this.#scenario.after);
  }

  #put(services: readonly ServiceRecord[]): void {
    for (const service of services) {
      const { name, clusterIps, ports } = service;
      const family = familyOf(clusterIps[0] ?? ip("10.96.0.1"));
      const endpoint = endpointRecord(family === "IPv4" ? "10.244.2.11" : "fd00:244:2::11");
      const slicePorts = ports.map((port) => ({ ...port, port: port.port + 8000 }));
      this.#bench.put(service, [endpoint], { name: `${name}-1`, family, ports: slicePorts });
    }
  }

  #judge(after: string): void {
    const got = this.#tryAll();
    for (const [index, { name }] of this.#probes.entries()) {
      if (got[index] && !this.#got[index]) {
        this.exposures.push({ kind: "opened", probe: name, after });
      }
    }
    this.#got = got;
  }

  #noteOpen(after: string): void {
    for (const [index, { name }] of this.#probes.entries()) {
      if (this.#got[index]) this.exposures.push({ kind: "left open", probe: name, after });
    }
  }

  #tryAll(): readonly boolean[] {
    const fates = fatesOf(
      this.kernel,
      this.#probes.map(({ packet }) => packet),
    );
    return this.#probes.map(({ forbidden }, index) => {
      const fate = fates[index];
      return fate !== undefined && forbidden.includes(fate);
    });
  }
}
