/** Reads kernel state into the cache, and records how the kernel differed from the cache. */
import type { Clock } from "../../base/clock.ts";
import type { IpAddress, IpFamily } from "../../base/ip.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { CachedRealServers, Kernel } from "../../kernel/kernel.ts";
import type { DesiredView } from "../../plan/desired-state.ts";
import type { SysctlSetting } from "../../plan/sysctls.ts";
import { type RealServer, sameRealServers } from "../../state/real-server.ts";
import type { RuleSet } from "../../state/rule.ts";
import {
  type ServerKey,
  type VirtualServer,
  virtualServerKey,
} from "../../state/virtual-server.ts";
import { cachedRulesInSteps } from "./cached-rules.ts";
import type { CachedState } from "./cached-state.ts";
import { compareMembers, compareServer, compareServers, sameRules } from "./compare.ts";
import { Differences } from "./difference.ts";
import { readAddresses } from "./read-addresses.ts";
import { readAllSets, readOtherSets } from "./read-sets.ts";
import type { ServersAhead } from "./servers-ahead.ts";

/** Parts of kernel state that are observed separately. */
export type ObservedPart = "link" | "sets" | "servers" | "rules" | "sysctls";

export const observedParts: readonly ObservedPart[] = [
  "link",
  "sets",
  "servers",
  "rules",
  "sysctls",
];

/** The rules and sysctls to read. `desired` contains lists that the cache can share to save memory. */
export interface ObservationGoal {
  readonly rules: ReadonlyMap<IpFamily, RuleSet>;
  readonly sysctls: readonly SysctlSetting[];
  readonly desired: Pick<DesiredView, "virtualServer">;
}

export class Observer {
  readonly #kernel: Kernel;
  readonly #clock: Clock;
  readonly #cached: CachedState;
  readonly #ahead: Pick<ServersAhead, "take"> | undefined;
  #differences = new Differences();

  /** `ahead` is undefined if servers are not read in advance. */
  constructor(
    { kernel, clock }: { readonly kernel: Kernel; readonly clock: Clock },
    cached: CachedState,
    ahead?: Pick<ServersAhead, "take">,
  ) {
    this.#kernel = kernel;
    this.#clock = clock;
    this.#cached = cached;
    this.#ahead = ahead;
  }

  /** Returns the differences found since the previous call. */
  takeDifferences(): Differences {
    const found = this.#differences;
    this.#differences = new Differences();
    return found;
  }

  get hasDifferences(): boolean {
    return !this.#differences.isEmpty;
  }

  get differences(): Differences {
    return this.#differences;
  }

  /** Reads one part completely. If the kernel cannot be read, rejects and leaves the cache unchanged. */
  async observe(part: ObservedPart, goal: ObservationGoal): Promise<void> {
    switch (part) {
      case "link":
        return this.noteBound((await readAddresses(this.#kernel)).bound);
      case "sets":
        this.#cached.otherEntries = await readOtherSets(this.#kernel.otherSets);
        return readAllSets(this.#kernel.ipSets, this.#cached, this.#differences);
      case "servers":
        return this.#observeServers(goal);
      case "rules":
        for (const [family, planned] of goal.rules) await this.observeRules(family, planned);
        return;
      case "sysctls":
        return this.checkSysctls(goal.sysctls);
    }
  }

  /** `bound` contains the current addresses of kube-ipvs0. Undefined if the link does not exist. */
  noteBound(bound: readonly IpAddress[] | undefined): void {
    const cached = this.#cached;
    if (cached.hasLink && bound === undefined) {
      this.#differences.lostLinkAddressCount = cached.addresses.size;
    }
    const found = new Set(bound);
    const { addresses } = this.#differences;
    compareMembers(cached.addresses, found, (address, wasThere) =>
      addresses.set(address, wasThere),
    );
    cached.hasLink = bound !== undefined;
    cached.addresses = found;
  }

  /** Reads our chains and jumps. Records differences only in IPVS mode, where they are drift. */
  async observeRules(family: IpFamily, planned: RuleSet): Promise<void> {
    const { iptables } = this.#kernel;
    const { rules } = this.#cached;
    const isOfServices = planned.ofServices !== undefined;
    const hasOwn = planned.ofServices?.own !== undefined;
    const scope = { planned, ...(hasOwn ? { hasOthers: true as const } : {}) };
    const observed = await iptables.observe(family, scope);
    const reading = cachedRulesInSteps(observed, planned, (rule) => iptables.render(family, rule));
    const found = await inSlices(this.#clock, reading, "large");
    const before = isOfServices ? undefined : rules.get(family);
    if (before !== undefined && sameRules(before, found)) return;
    if (before !== undefined) this.#differences.rules.set(family, { before, after: found });
    rules.set(family, found);
  }

  checkSysctls(sysctls: readonly SysctlSetting[]): void {
    for (const { path } of sysctls) {
      const [before, after] = [this.#cached.sysctls.get(path), this.#kernel.sysctl.read(path)];
      if (this.#cached.sysctls.has(path) && before !== after) {
        this.#differences.sysctls.set(path, { before, after });
      }
      this.#cached.sysctls.set(path, after);
    }
  }

  /**
   * Lists the virtual servers, and reads the real servers of new ones. Returns all virtual servers. Records those
   * that a third party removed, added or changed.
   */
  async observeHeaders(): Promise<readonly VirtualServer[]> {
    const found = await this.#kernel.ipvs.listVirtualServers();
    const isNew = (server: VirtualServer): boolean =>
      !this.#cached.virtualServers.has(virtualServerKey(server));
    compareServers(this.#cached, found, this.#differences);
    await this.observeRealServers(found.filter(isNew));
    return found;
  }

  /**
   * Looks up the given virtual servers that are not cached. If one exists, a third party has created it since the last
   * listing, and it is recorded like any other difference.
   */
  async observeUncached(servers: Iterable<VirtualServer>): Promise<void> {
    const { virtualServers } = this.#cached;
    const unknown = [...servers].filter((server) => !virtualServers.has(virtualServerKey(server)));
    if (unknown.length === 0) return;
    await this.observeRealServers(await this.#kernel.ipvs.findVirtualServers(unknown));
  }

  /** Reads the real servers of these virtual servers. */
  async observeRealServers(servers: readonly VirtualServer[]): Promise<void> {
    if (servers.length === 0) return;
    const { virtualServers } = this.#cached;
    const lists = await this.#kernel.ipvs.readRealServers(
      servers,
      (key) => virtualServers.get(key)?.realServers,
    );
    this.#noteRealServers(servers, lists);
  }

  async #observeServers({ desired }: ObservationGoal): Promise<void> {
    const { virtualServers } = this.#cached;
    const ahead = await this.#ahead?.take();
    const found = await this.#kernel.ipvs.listVirtualServers();
    const lists = await this.#realServersOf(
      found,
      (key) => virtualServers.get(key)?.realServers ?? desired.virtualServer(key)?.realServers,
      ahead,
    );
    compareServers(this.#cached, found, this.#differences);
    this.#noteRealServers(found, lists);
  }

  #noteRealServers(
    servers: readonly VirtualServer[],
    lists: readonly (readonly RealServer[])[],
  ): void {
    const { virtualServers } = this.#cached;
    for (const [index, virtualServer] of servers.entries()) {
      const realServers = lists[index] ?? [];
      const key = virtualServerKey(virtualServer);
      const present = virtualServers.get(key);
      compareServer(key, present, { virtualServer, realServers }, this.#differences);
      if (present?.realServers === realServers) continue;
      virtualServers.set(key, { virtualServer, realServers });
    }
  }

  /** Like `Ipvs.readRealServers`, but uses real servers that were read in advance. */
  async #realServersOf(
    servers: readonly VirtualServer[],
    cached: CachedRealServers,
    ahead: ReadonlyMap<ServerKey, readonly RealServer[]> = new Map(),
  ): Promise<readonly (readonly RealServer[])[]> {
    const rest = servers.filter((server) => !ahead.has(virtualServerKey(server)));
    const read = (await this.#kernel.ipvs.readRealServers(rest, cached)).values();
    return servers.map((server) => {
      const key = virtualServerKey(server);
      const list = ahead.get(key);
      if (list === undefined) return read.next().value ?? [];
      const known = cached(key);
      return known !== undefined && sameRealServers(known, list) ? known : list;
    });
  }
}
