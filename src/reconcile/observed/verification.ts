import type { IpFamily } from "../../base/ip.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { SysctlSetting } from "../../plan/sysctls.ts";
import type { RuleSet } from "../../state/rule.ts";
import { type VirtualServer, virtualServerKey } from "../../state/virtual-server.ts";
import { ourSets } from "../kinds/sets.ts";
import type { CachedState } from "./cached-state.ts";
import type { Observer } from "./observer.ts";
import { checkSetHeaders, oversizedSets, readOneSet } from "./read-sets.ts";

/** Virtual servers whose real servers are read in one step: a sync that is due waits for no more. */
const serversPerStep = 500;
/** In one period at least so many, however few are needed for a round. */
const leastServersPerPeriod = 1_000;
const leastEntriesPerPeriod = 5_000;

/**
 * Compares the kernel with the cache bit by bit, so that its cost has a bound whatever the size: headers of sets and
 * virtual servers each period; real servers and set entries a share per period, round after round. Differences go to
 * the observer; the next sync repairs them.
 */
export class Verification {
  readonly #kernel: Kernel;
  readonly #cached: CachedState;
  readonly #observer: Observer;
  /** Generations in which the rules of a family were found right. */
  readonly #rightRules = new Map<IpFamily, number | undefined>();
  /** Virtual servers whose real servers are still to be read in this round. */
  #servers: VirtualServer[] = [];
  #setNames: string[] = [];
  #hasBegunPeriod = false;

  constructor(kernel: Kernel, cached: CachedState, observer: Observer) {
    this.#kernel = kernel;
    this.#cached = cached;
    this.#observer = observer;
  }

  /** Gives the names of the sets that differ. Rejects with what the kernel says. */
  checkSets(): Promise<readonly string[]> {
    return checkSetHeaders(this.#kernel.ipSets, this.#cached, this.#observer.differences);
  }

  /** Reads our chains and jumps, unless nobody changed a rule since they were found right. Says whether they differ. */
  async checkRules(rules: ReadonlyMap<IpFamily, RuleSet>): Promise<boolean> {
    let isChanged = false;
    for (const [family, planned] of rules) {
      const generation = await this.#kernel.iptables.readGeneration(family);
      if (generation !== undefined && generation === this.#rightRules.get(family)) continue;
      await this.#observer.observeRules(family, planned);
      const differs = this.#observer.differences.rules.has(family);
      this.#rightRules.set(family, differs ? undefined : generation);
      isChanged ||= differs;
    }
    // Who took rules away may have taken sets: rules cannot be written before those they name.
    if (isChanged) await this.checkSets();
    return isChanged;
  }

  /**
   * Begins a period: compares sysctls, the headers of virtual servers, and a share of the set entries. Gives the steps
   * in which the share of real servers is compared, each to be run on its own. `periodsPerRound`: everything is
   * compared once in so many periods.
   */
  async beginPeriod(
    sysctls: readonly SysctlSetting[],
    periodsPerRound: number,
  ): Promise<readonly (() => Promise<void>)[]> {
    this.#observer.checkSysctls(sysctls);
    await this.#readEntries(periodsPerRound);
    this.#hasBegunPeriod = true;
    const all = await this.#observer.observeHeaders();
    if (this.#servers.length === 0) this.#servers = [...all];
    const share = Math.max(leastServersPerPeriod, Math.ceil(all.length / periodsPerRound));
    const servers = this.#servers.splice(0, share);
    const steps: (() => Promise<void>)[] = [];
    for (let first = 0; first < servers.length; first += serversPerStep) {
      const part = servers.slice(first, first + serversPerStep);
      steps.push(() => this.#readServers(part));
    }
    return steps;
  }

  /** Once per period: sets that are larger than kube-proxy would make them. A count around the limit is to move none often. */
  takeOversizedSets(): readonly string[] {
    if (!this.#hasBegunPeriod) return [];
    this.#hasBegunPeriod = false;
    return oversizedSets(this.#cached);
  }

  /** Those that went meanwhile are left out. */
  #readServers(servers: readonly VirtualServer[]): Promise<void> {
    const { virtualServers } = this.#cached;
    const present = servers.flatMap(
      (server) => virtualServers.get(virtualServerKey(server))?.virtualServer ?? [],
    );
    return this.#observer.observeRealServers(present);
  }

  async #readEntries(periodsPerRound: number): Promise<void> {
    await this.checkSets();
    if (this.#setNames.length === 0) this.#setNames = [...ourSets.keys()];
    const total = [...this.#cached.setEntries.values()].reduce((sum, { size }) => sum + size, 0);
    let left = Math.max(leastEntriesPerPeriod, Math.ceil(total / periodsPerRound));
    while (left > 0) {
      const name = this.#setNames.shift();
      if (name === undefined) return;
      const { differences } = this.#observer;
      left -= await readOneSet(this.#kernel.ipSets, name, this.#cached, differences);
    }
  }
}
