import type { IpFamily } from "../../base/ip.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import type { SysctlSetting } from "../../plan/sysctls.ts";
import type { RuleSet } from "../../state/rule.ts";
import { type VirtualServer, virtualServerKey } from "../../state/virtual-server.ts";
import { ourSets } from "../kinds/sets.ts";
import type { CachedState } from "./cached-state.ts";
import type { Observer } from "./observer.ts";
import { checkSetHeaders, oversizedSets, readOneSet } from "./read-sets.ts";

/** Number of virtual servers whose real servers are read in one step. A sync that is due waits for at most one step. */
const serversPerStep = 500;
/** Minimum number of objects that are compared in a period, even if fewer would be enough to complete the round. */
const leastServersPerPeriod = 1_000;
const leastEntriesPerPeriod = 5_000;

/**
 * Compares the kernel with the cache incrementally, so that the cost is bounded at any cluster size. Each period
 * compares the headers of all sets and virtual servers, and a share of the real servers and set entries. The observer
 * records differences, and the next sync repairs them.
 */
export class Verification {
  readonly #kernel: Kernel;
  readonly #cached: CachedState;
  readonly #observer: Observer;
  /** The generation at which each family's rules last matched the cache. */
  readonly #rightRules = new Map<IpFamily, number | undefined>();
  /** Virtual servers whose real servers are still unread in this round. */
  #servers: VirtualServer[] = [];
  #setNames: string[] = [];
  #hasBegunPeriod = false;

  constructor(kernel: Kernel, cached: CachedState, observer: Observer) {
    this.#kernel = kernel;
    this.#cached = cached;
    this.#observer = observer;
  }

  /**
   * Compares the headers of our sets, and reads the entries of sets that differ and of `suspects`. Resolves with the
   * names of these sets. Rejects if the kernel cannot be read.
   */
  checkSets(suspects?: ReadonlySet<string>): Promise<readonly string[]> {
    const { differences } = this.#observer;
    return checkSetHeaders(this.#kernel.ipSets, this.#cached, differences, suspects);
  }

  /**
   * Reads our chains and jumps if any rule has changed since they last matched the cache. Resolves with whether they
   * differ.
   */
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
    // Software that removed rules may also have removed sets, and rules cannot be written until the sets to which they
    // refer exist.
    if (isChanged) await this.checkSets();
    return isChanged;
  }

  /**
   * Begins a period: compares sysctls, virtual server headers, and a share of the set entries. Resolves with steps that
   * compare a share of the real servers, which the caller runs separately. Everything is compared once in
   * `periodsPerRound` periods.
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

  /**
   * Returns the sets that have more capacity than their entries need, so that the next sync may shrink them. Returns
   * them only once per period, so that a count that fluctuates around a limit rarely causes a resize.
   */
  takeOversizedSets(): readonly string[] {
    if (!this.#hasBegunPeriod) return [];
    this.#hasBegunPeriod = false;
    return oversizedSets(this.#cached);
  }

  /** Reads the real servers of these virtual servers. Skips those that have been removed in the meantime. */
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
