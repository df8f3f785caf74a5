/**
 * Runs a scenario with one fault, and judges packets after every change to the fake kernel. A run is exposed if a
 * change admits a previously rejected packet, or if a packet is still admitted after a sync in which the result of
 * every request was known.
 */
import type { ServiceRecord } from "../../../src/api/objects.ts";
import { type IpFamily, ipFamilies } from "../../../src/base/ip.ts";
import { planEmptyRules } from "../../../src/plan/rules.ts";
import { cleanUp } from "../../../src/reconcile/clean-up.ts";
import { namesIn, noNames } from "../../../src/reconcile/iptables/plan-rules-removal.ts";
import { noOwnershipRecord } from "../../../src/reconcile/ownership/ownership.ts";
import type { Rule } from "../../../src/state/rule.ts";
import { FakeClock } from "../fake-clock.ts";
import { FakeKernel } from "../fake-kernel/fake-kernel.ts";
import { type Operation, operationText } from "../fake-kernel/operations.ts";
import { addressesText, ipSetText, iptablesText, ipvsText } from "../fake-kernel/state-text.ts";
import { familyOptions, ip } from "../records.ts";
import { type Fault, faultsOf, pairsOf } from "./faults.ts";
import { fatesOf } from "./judge.ts";
import { type Probe, probesOf } from "./probes.ts";
import { ipvsMode, type Mode, type Program, type Settings } from "./programs.ts";
import type { Scenario } from "./scenarios.ts";

export interface Exposure {
  readonly kind: "opened" | "left open";
  readonly probe: string;
  /** The change or the sync after which the packet was admitted. */
  readonly after: string;
}

export interface Run {
  readonly exposures: readonly Exposure[];
  /** The kernel state at the end. */
  readonly state: string;
  /** All requests to the kernel since the scenario began. */
  readonly requests: readonly (readonly Operation[])[];
}

/** Number of syncs during the fault. The second sync follows immediately, and the others are a second apart. */
const syncsWithFault = 4;
/** Longer than the longest retry delay. */
const longPauseMs = 700_000;

/** Runs without a fault, then with each single fault, or with every `share`-th fault. */
export async function* playWithFaults(
  scenario: Scenario,
  share: number = 1,
  mode: Mode = ipvsMode,
): AsyncGenerator<{ readonly name: string; readonly run: Run }> {
  const faultless = await playScenario(mode, scenario, undefined);
  const title = mode === ipvsMode ? scenario.name : `${mode.name}: ${scenario.name}`;
  yield { name: `${title} | no fault`, run: faultless };
  for (const [index, fault] of faultsOf(faultless.requests).entries()) {
    if (index % share !== 0) continue;
    yield { name: `${title} | ${fault.name}`, run: await playScenario(mode, scenario, fault) };
  }
}

/** Runs with each pair of permanently rejected changes. */
export async function* playWithPairs(
  scenario: Scenario,
  mode: Mode,
): AsyncGenerator<{ readonly name: string; readonly run: Run }> {
  const { requests } = await playScenario(mode, scenario, undefined);
  for (const fault of pairsOf(faultsOf(requests))) {
    const run = await playScenario(mode, scenario, fault);
    yield { name: `${mode.name}: ${scenario.name} | ${fault.name}`, run };
  }
}

async function playScenario(
  mode: Mode,
  scenario: Scenario,
  fault: Fault | undefined,
): Promise<Run> {
  const play = new Play(mode, scenario);
  await play.prepare();
  const endFault = fault?.begin(play.kernel);
  await play.goOn(syncsWithFault, (index) => (index === 0 ? 0 : 1_000));
  endFault?.();
  await play.goOn(4, () => longPauseMs);
  const { requests } = play.kernel.operations;
  return { exposures: play.exposures, state: play.state(), requests };
}

/** Source ranges also apply to node ports. */
const edges = { answerPing: false, masqueradeNodeToLocal: false, strictSourceRanges: true };
const strictFamilies = new Map(
  ipFamilies.map((family) => [family, familyOptions(family, { edges })] as const),
);

class Play {
  readonly kernel: FakeKernel = new FakeKernel();
  readonly exposures: Exposure[] = [];
  readonly #clock = new FakeClock();
  readonly #scenario: Scenario;
  readonly #probes: readonly Probe[];
  readonly #mode: Mode;
  readonly #settings: Settings;
  #program: Program;
  /** Families whose link for tunnels exists. It is created and removed after a sync, and removed before a clean-up. */
  #links: readonly IpFamily[] = [];
  /** Whether each probe was admitted at the last attempt. */
  #got: readonly boolean[] = [];

  constructor(mode: Mode, scenario: Scenario) {
    this.#mode = mode;
    this.#scenario = scenario;
    this.#probes = probesOf(mode, scenario.before ?? [], scenario.after);
    this.#settings = {
      ...(scenario.hasPortRanges === true ? { portRangeMarks: 0x3fff0000 } : {}),
      ...(scenario.hasTunnels === true ? { tunnels: {}, families: strictFamilies } : {}),
    };
    this.#program = mode.start(this.kernel, this.#clock, this.#settings);
  }

  async prepare(): Promise<void> {
    const { before, after, damage, isRestarted } = this.#scenario;
    if (before !== undefined) {
      this.#put(before);
      await this.#program.sync();
      await this.#program.sync();
      this.#updateLinks();
    }
    damage?.(this.kernel);
    this.#got = this.#tryAll();
    this.kernel.operations.clear();
    this.kernel.operations.onChanged = (operation) => this.#judge(operationText(operation));
    if (isRestarted) this.#restart();
    for (const service of before ?? []) {
      if (!after.some(({ name }) => name === service.name)) this.#program.drop(service);
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
    const { kernel } = this;
    return (
      ipvsText(kernel) +
      ipSetText(kernel) +
      addressesText(kernel) +
      iptablesText(kernel, "IPv4") +
      iptablesText(kernel, "IPv6")
    );
  }

  /** Returns whether the result of every request is known. */
  async #step(): Promise<boolean> {
    if (this.#scenario.isCleanUp) {
      this.#links = [];
      return this.#cleanUp();
    }
    this.#links = this.#links.filter((family) => this.#program.usesTunnels?.(family) === true);
    const knewAll = await this.#program.sync();
    if (!this.kernel.operations.hasCrashed) {
      this.#updateLinks();
      this.#judge("the link");
    }
    return knewAll;
  }

  #updateLinks(): void {
    this.#links = ipFamilies.filter((family) => this.#program.mayReceive?.(family) === true);
  }

  async #cleanUp(): Promise<boolean> {
    const options = { masqueradeAll: false, masqueradeMark: 0x4000, ...this.#settings };
    const families = ["IPv4", "IPv6"] as const;
    const rules = families.map((family) => {
      const places = planEmptyRules(family, options);
      const render = (rule: Rule): string => this.kernel.iptables.render(family, rule);
      return [family, { places, leftover: namesIn(places, render), kept: noNames }] as const;
    });
    const { failures } = await cleanUp(
      { kernel: this.kernel, clock: this.#clock },
      {
        rules: new Map(rules),
        ipvs: {
          nodeAddresses: new Set([ip("192.168.10.11")]),
          ownership: { foreignVirtualServers: "keep", excludeCIDRs: [] },
          record: noOwnershipRecord,
          hasIpvs: true,
        },
      },
    );
    return failures.length === 0;
  }

  #restart(): void {
    this.#program = this.#mode.start(this.kernel, this.#clock, this.#settings);
    this.#put(this.#scenario.after);
  }

  #put(services: readonly ServiceRecord[]): void {
    for (const service of services) this.#program.put(service);
  }

  #judge(after: string): void {
    const got = this.#tryAll();
    for (const [index, { name, mayOpen }] of this.#probes.entries()) {
      if (got[index] && !this.#got[index] && mayOpen !== true) {
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
    return this.#probes.map(({ forbidden, needsLink, packet }, index) => {
      const fate = fates[index];
      if (needsLink === true && !this.#links.includes(packet.family)) return false;
      return fate !== undefined && forbidden.includes(fate);
    });
  }
}
