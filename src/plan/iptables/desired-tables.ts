import { isDeepStrictEqual } from "node:util";
import type { IpFamily } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import { type FamilyServiceKey, familyServiceKey } from "../../base/service-name.ts";
import { bySeniority, type ServicePortKey, servicePortKey } from "../../model/service-port.ts";
import { type TrafficPolicy, trafficPolicies } from "../../model/topology.ts";
import { type Chain, type ChainKey, chainKey, type Rule, type RuleSet } from "../../state/rule.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import type { Holder, Holders } from "../claims/claim.ts";
import type { ClaimAges } from "../claims/claim-ages.ts";
import type { WinnerChange } from "../claims/claims.ts";
import { type PortClaim, PortClaims } from "../claims/port-claims.ts";
import { fixedChains, fixedJumps, nodePortEntries, ofServices } from "./fixed-chains.ts";
import type { IptablesOptions } from "./options.ts";
import type { ServiceRules } from "./planner.ts";
import type { ServicePortRules } from "./service-port-rules.ts";
import {
  type SharedChain,
  type SharedChainKey,
  type SharedRule,
  sharedChains,
} from "./shared-chains.ts";
import { type UdpDestination, UdpDestinations } from "./udp-destinations.ts";

type TableClaims = PortClaims<ServicePortRules>;

/**
 * The desired tables of one family: the combination of all Services' rules. An unchanged chain stays the same object,
 * so that comparing it is free.
 */
class FamilyTables {
  readonly #family: IpFamily;
  /** Chains that belong to a single service port, by name. All are in nat. */
  readonly #own = new Map<string, Chain>();
  /** Service ports with rules in a shared chain. */
  readonly #shared = new Map<SharedChainKey, Map<ServicePortKey, ServicePortRules>>();
  readonly #claims: TableClaims;
  /** Shared chains as built for the last rule set, without those whose rules planning has changed since then. */
  readonly #made = new Map<SharedChainKey, Chain>();
  /** The last rule set. It is outdated if planning has changed a chain since then. */
  #ruleSet: RuleSet | undefined;
  /** Names of own chains that planning has changed since the last rule set. */
  readonly #touched = new Set<string>();
  #fixed: readonly Chain[] = none;
  /** The options of `#made`, `#fixed` and `#ruleSet`. */
  #options: IptablesOptions | undefined;

  constructor(family: IpFamily, claims: TableClaims) {
    this.#family = family;
    this.#claims = claims;
  }

  /** Records that a Service is already served at this address and port. */
  hold(key: ServerKey, holder: Holder): void {
    this.#touchRulesOf(key, this.#claims.hold(key, holder));
  }

  /** Makes the next rule set rebuild all shared chains. All chains are then compared. */
  rebuild(): void {
    this.#made.clear();
    this.#ruleSet = undefined;
  }

  #touch(chain: SharedChainKey): void {
    this.#made.delete(chain);
  }

  /** Yields after each shared chain. */
  *ruleSet(options: IptablesOptions): Generator<void, RuleSet> {
    if (options !== this.#options) {
      this.#options = options;
      this.#fixed = fixedChains(options);
      this.rebuild();
    }
    const last = this.#ruleSet;
    const isTouched = this.#touched.size > 0 || this.#made.size < sharedChains.length;
    if (last !== undefined && !isTouched) return last;
    const own = options.families.get(this.#family);
    const [shared, changed]: [Chain[], Chain[]] = [[], []];
    for (const place of sharedChains) {
      const made = this.#made.get(place.key);
      const chain = made ?? this.#sharedChain(place, options);
      this.#made.set(place.key, chain);
      shared.push(chain);
      if (made === undefined) changed.push(chain);
      yield;
    }
    const gone: ChainKey[] = [];
    for (const name of this.#touched) {
      const chain = this.#own.get(name);
      if (chain === undefined) gone.push(chainKey("nat", name));
      else changed.push(chain);
    }
    this.#touched.clear();
    const since = last?.revision;
    const listAll = (): readonly Chain[] => shared.concat(this.#fixed, [...this.#own.values()]);
    let chains: readonly Chain[] | undefined;
    this.#ruleSet = {
      // Computed only when it is read, because a change of endpoints only needs `changes`. It must be read before
      // planning continues.
      get chains() {
        chains ??= listAll();
        return chains;
      },
      jumps: own === undefined ? none : fixedJumps(own),
      ofServices,
      revision: Symbol("rule set"),
      ...(since === undefined ? {} : { changes: { since, chains: changed, gone } }),
    };
    return this.#ruleSet;
  }

  replacePort(
    key: ServicePortKey,
    before: ServicePortRules | undefined,
    after: ServicePortRules | undefined,
  ): void {
    const gone = new Set(before?.chains.map(({ name }) => name));
    for (const chain of after?.chains ?? none) {
      gone.delete(chain.name);
      const present = this.#own.get(chain.name);
      if (present !== undefined && isDeepStrictEqual(present.rules, chain.rules)) continue;
      this.#own.set(chain.name, chain);
      this.#touched.add(chain.name);
    }
    for (const name of gone) {
      this.#own.delete(name);
      this.#touched.add(name);
    }
    this.#replaceShared(key, before, after);
  }

  #replaceShared(
    key: ServicePortKey,
    before: ServicePortRules | undefined,
    after: ServicePortRules | undefined,
  ): void {
    const partsBefore = this.#partsOf(before);
    this.#claims.replace(before, after, (claim, change) => this.#touchRulesOf(claim, change));
    for (const { chain } of before?.shared ?? none) this.#shared.get(chain)?.delete(key);
    for (const { chain } of after?.shared ?? none) {
      const ports = this.#shared.get(chain) ?? new Map<ServicePortKey, ServicePortRules>();
      this.#shared.set(chain, ports.set(key, after as ServicePortRules));
    }
    this.#touchDifferences(partsBefore, this.#partsOf(after));
    if (before === undefined || after === undefined) return;
    // A recreated Service is younger, so its rules have a different position.
    const [was, is] = [before.servicePort, after.servicePort];
    if (bySeniority({ ...was, name: key }, { ...is, name: key }) === 0) return;
    for (const { chain } of after.shared) this.#touch(chain);
  }

  /** A service port's effective rules, by chain. Skips rules for addresses that another Service owns. */
  #partsOf(plan: ServicePortRules | undefined): RulesByChain {
    const parts = new Map<SharedChainKey, Rule[]>();
    if (plan === undefined) return parts;
    for (const shared of plan.shared) {
      if (!this.#isWon(plan, shared)) continue;
      const rules = parts.get(shared.chain) ?? [];
      rules.push(shared.rule);
      parts.set(shared.chain, rules);
    }
    return parts;
  }

  /** Marks the chains with rules for an address and port whose owner changed. */
  #touchRulesOf(
    key: ServerKey,
    { before, after }: WinnerChange<PortClaim<ServicePortRules>>,
  ): void {
    const [left, right] = [before?.plan.servicePort, after?.plan.servicePort];
    if (left === undefined || right === undefined) return;
    if (servicePortKey(left) === servicePortKey(right)) return;
    for (const plan of [before?.plan, after?.plan]) {
      for (const { chain, claim } of plan?.shared ?? none) {
        if (claim === key) this.#touch(chain);
      }
    }
  }

  #isWon(plan: ServicePortRules, { claim }: SharedRule): boolean {
    return claim === undefined || this.#claims.isWonBy(plan, claim);
  }

  #touchDifferences(before: RulesByChain, after: RulesByChain): void {
    for (const chain of new Set([...before.keys(), ...after.keys()])) {
      if (!isDeepStrictEqual(before.get(chain), after.get(chain))) this.#touch(chain);
    }
  }

  #sharedChain({ key, table, name }: SharedChain, options: IptablesOptions): Chain {
    const own = options.families.get(this.#family);
    const isServices = key === "nat KUBE-SERVICES" && own !== undefined;
    const below: readonly Rule[] = isServices ? nodePortEntries(this.#family, own) : none;
    return { table, name, rules: [...this.#rulesIn(key), ...below] };
  }

  /** The rules in a shared chain. Those of older Services are first, so that two dumps can be compared. */
  #rulesIn(key: SharedChainKey): readonly Rule[] {
    const ports = [...(this.#shared.get(key) ?? [])].map(([name, plan]) => ({
      seniority: { ...plan.servicePort, name },
      plan,
    }));
    return ports
      .sort((left, right) => bySeniority(left.seniority, right.seniority))
      .flatMap(({ plan }) =>
        plan.shared.filter((one) => one.chain === key && this.#isWon(plan, one)),
      )
      .map(({ rule }) => rule);
  }
}

/** A service port's rules before and after a change. */
type PortChange = readonly [ServicePortRules | undefined, ServicePortRules | undefined];

type RulesByChain = ReadonlyMap<SharedChainKey, readonly Rule[]>;

/** The desired tables of every family. They change one Service at a time. */
export class DesiredTables {
  readonly #services = new Map<FamilyServiceKey, ServiceRules>();
  readonly #families = new Map<IpFamily, FamilyTables>();
  /** Totals, so that a sync need not visit every Service. Keys are `WHAT FAMILY`, such as `endpoints IPv4`. */
  readonly #counts = new Map<string, number>();
  readonly #udp = new UdpDestinations();
  readonly #claims: TableClaims;

  /** `held` names the owners of contested addresses in an earlier run. `ages` says when each claim was first seen. */
  constructor(held?: Holders, ages?: ClaimAges) {
    this.#claims = new PortClaims(held, ages);
  }

  /** The claims of Services to addresses and ports, which determine the owner of each. */
  get claims(): Pick<
    TableClaims,
    "lost" | "lostTo" | "reserved" | "undecided" | "settle" | "contestedHolders"
  > {
    return this.#claims;
  }

  /**
   * Records that these Services are already served at these addresses. Their claims now precede other claims of equal
   * rank.
   */
  holdClaims(holders: Holders<ServerKey>): void {
    for (const [key, holder] of holders) {
      const family = this.#claims.of(key)[0]?.plan.servicePort.family;
      if (family !== undefined) this.#tables(family).hold(key, holder);
    }
  }

  /** Total number of endpoints of a family's service ports. */
  endpointCount(family: IpFamily): number {
    return this.#counts.get(`endpoints ${family}`) ?? 0;
  }

  /**
   * Replaces a Service's plan in a family. Yields after each service port. At each yield, the remaining ports still
   * have their previous rules.
   */
  *replace(plan: ServiceRules): Generator<void, void> {
    const { family, service, servicePorts } = plan;
    const key = familyServiceKey(family, service);
    const before = this.#services.get(key)?.servicePorts ?? none;
    if (servicePorts.length === 0) this.#services.delete(key);
    else this.#services.set(key, plan);
    this.#count(family, before, -1);
    this.#count(family, servicePorts, 1);
    const previous = new Map(before.map((rules) => [servicePortKey(rules.servicePort), rules]));
    for (const rules of servicePorts) {
      const port = servicePortKey(rules.servicePort);
      this.#replacePort(family, port, previous.get(port), rules);
      previous.delete(port);
      yield;
    }
    for (const [port, gone] of previous) {
      this.#replacePort(family, port, gone, undefined);
      yield;
    }
  }

  #replacePort(family: IpFamily, port: ServicePortKey, ...change: PortChange): void {
    this.#tables(family).replacePort(port, ...change);
    this.#udp.replace(...change);
  }

  /** All UDP destinations, to compare tracked UDP flows with them. */
  udpDestinations(): readonly UdpDestination[] {
    return this.#udp.all((key) => this.#claims.winner(key)?.plan);
  }

  /** Everything that a family's tables should contain. Yields after each shared chain. */
  ruleSet(family: IpFamily, options: IptablesOptions): Generator<void, RuleSet> {
    return this.#tables(family).ruleSet(options);
  }

  /** Rebuilds all shared chains in a family's next rule set, in case a change was missed. */
  rebuild(family: IpFamily): void {
    this.#tables(family).rebuild();
  }

  /** Number of service ports for which this policy is Local and all endpoints are on other nodes. */
  withoutLocalEndpoints(policy: TrafficPolicy, family: IpFamily): number {
    return this.#counts.get(`${policy} ${family}`) ?? 0;
  }

  /** Adds the service ports to the counts, or subtracts them if `times` is -1. */
  #count(family: IpFamily, servicePorts: readonly ServicePortRules[], times: 1 | -1): void {
    const add = (what: "endpoints" | TrafficPolicy, count: number): void => {
      const key = `${what} ${family}`;
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + times * count);
    };
    for (const { endpointCount, hasNoLocalEndpoints } of servicePorts) {
      add("endpoints", endpointCount);
      for (const policy of trafficPolicies) if (hasNoLocalEndpoints[policy]) add(policy, 1);
    }
  }

  #tables(family: IpFamily): FamilyTables {
    const tables = this.#families.get(family) ?? new FamilyTables(family, this.#claims);
    this.#families.set(family, tables);
    return tables;
  }
}
