import { isDeepStrictEqual } from "node:util";
import type { IpFamily } from "../../base/ip.ts";
import { none } from "../../base/none.ts";
import type { ServiceName } from "../../base/service-name.ts";
import { bySeniority, servicePortKey } from "../../model/service-port.ts";
import { type TrafficPolicy, trafficPolicies } from "../../model/topology.ts";
import type { Chain, Rule, RuleSet, TableName } from "../../state/rule.ts";
import type { Holder, Holders } from "../claims/claim.ts";
import type { ClaimAges } from "../claims/claim-ages.ts";
import type { WinnerChange } from "../claims/claims.ts";
import { type PortClaim, PortClaims } from "../claims/port-claims.ts";
import { type OwnedReservedAddress, unservedAddresses } from "../frontends.ts";
import { fixedChains, fixedJumps, nodePortEntries } from "./fixed-chains.ts";
import type { IptablesOptions } from "./options.ts";
import type { ServiceRules } from "./planner.ts";
import type { ServicePortRules } from "./service-port-rules.ts";
import {
  type SharedChain,
  type SharedChainKey,
  type SharedRule,
  sharedChains,
} from "./shared-chains.ts";
import { type UdpDestination, UdpDestinations, type WinnerAt } from "./udp-destinations.ts";

/** A chain of one family that is another one than before, or gone. */
export interface TouchedChain {
  readonly table: TableName;
  readonly name: string;
  /** Undefined: nobody wants it any more. */
  readonly chain: Chain | undefined;
}

type TableClaims = PortClaims<ServicePortRules>;

/** What one family's tables should hold: the sum of all Services' rules, with the chains that changed marked. */
class FamilyTables {
  readonly #family: IpFamily;
  /** Chains that belong to one service port, by name; all in nat. */
  readonly #own = new Map<string, Chain>();
  /** Service ports with rules in a shared chain. */
  readonly #shared = new Map<SharedChainKey, Map<string, ServicePortRules>>();
  readonly #claims: TableClaims;
  readonly #onWinner: (key: string) => void;
  #touched = new Set<string>();

  /** `onWinner`: an address and port went from one service port to another. */
  constructor(family: IpFamily, claims: TableClaims, onWinner: (key: string) => void) {
    this.#family = family;
    this.#claims = claims;
    this.#onWinner = onWinner;
  }

  /** A Service turns out to be served at an address and port already. */
  hold(key: string, holder: Holder): void {
    this.#touchRulesOf(key, this.#claims.hold(key, holder));
  }

  takeTouched(options: IptablesOptions): Iterable<TouchedChain> {
    const touched = this.#touched;
    this.#touched = new Set();
    return this.#chainsOf(touched, options);
  }

  *#chainsOf(keys: ReadonlySet<string>, options: IptablesOptions): Generator<TouchedChain> {
    for (const key of keys) {
      const place = sharedChains.find((shared) => shared.key === key);
      if (place === undefined) yield { table: "nat", name: key, chain: this.#own.get(key) };
      else yield { ...place, chain: this.#sharedChain(place, options) };
    }
  }

  /** Yields after each chain that service ports share. */
  *ruleSet(options: IptablesOptions): Generator<void, RuleSet> {
    const own = options.families.get(this.#family);
    const shared: Chain[] = [];
    for (const place of sharedChains) {
      shared.push(this.#sharedChain(place, options));
      yield;
    }
    return {
      chains: shared.concat(fixedChains(options), [...this.#own.values()]),
      jumps: own === undefined ? none : fixedJumps(own),
    };
  }

  replacePort(
    key: string,
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
    key: string,
    before: ServicePortRules | undefined,
    after: ServicePortRules | undefined,
  ): void {
    const partsBefore = this.#partsOf(before);
    this.#claims.replace(before, after, (claim, change) => this.#touchRulesOf(claim, change));
    for (const { chain } of before?.shared ?? none) this.#shared.get(chain)?.delete(key);
    for (const { chain } of after?.shared ?? none) {
      const ports = this.#shared.get(chain) ?? new Map<string, ServicePortRules>();
      this.#shared.set(chain, ports.set(key, after as ServicePortRules));
    }
    this.#touchDifferences(partsBefore, this.#partsOf(after));
    if (before === undefined || after === undefined) return;
    // One that was made again is younger: its rules stand elsewhere.
    const [was, is] = [before.servicePort, after.servicePort];
    if (bySeniority({ ...was, name: key }, { ...is, name: key }) === 0) return;
    for (const { chain } of after.shared) this.#touched.add(chain);
  }

  /** Rules of a service port that count, by chain: who lost an address has none about it. */
  #partsOf(plan: ServicePortRules | undefined): Parts {
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

  /** Chains with rules about an address and port that went from one service port to another. */
  #touchRulesOf(key: string, { before, after }: WinnerChange<PortClaim<ServicePortRules>>): void {
    const [left, right] = [before?.plan.servicePort, after?.plan.servicePort];
    if (left === undefined || right === undefined) return;
    if (servicePortKey(left) === servicePortKey(right)) return;
    this.#onWinner(key);
    for (const plan of [before?.plan, after?.plan]) {
      for (const { chain, claim } of plan?.shared ?? none) {
        if (claim === key) this.#touched.add(chain);
      }
    }
  }

  #isWon(plan: ServicePortRules, { claim }: SharedRule): boolean {
    return claim === undefined || this.#claims.isWonBy(plan, claim);
  }

  #touchDifferences(before: Parts, after: Parts): void {
    for (const chain of new Set([...before.keys(), ...after.keys()])) {
      if (!isDeepStrictEqual(before.get(chain), after.get(chain))) this.#touched.add(chain);
    }
  }

  #sharedChain({ key, table, name }: SharedChain, options: IptablesOptions): Chain {
    const own = options.families.get(this.#family);
    const isServices = key === "nat KUBE-SERVICES" && own !== undefined;
    const below: readonly Rule[] = isServices ? nodePortEntries(this.#family, own) : none;
    return { table, name, rules: [...this.#rulesIn(key), ...below] };
  }

  /** The older Service first: two dumps can be compared. */
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

/** What a service port wanted, and wants. */
type PortChange = readonly [ServicePortRules | undefined, ServicePortRules | undefined];

/** Rules by chain. */
type Parts = ReadonlyMap<SharedChainKey, readonly Rule[]>;

/** What the tables of every family should hold, changed one Service at a time. */
export class DesiredTables {
  readonly #services = new Map<string, ServiceRules>();
  readonly #families = new Map<IpFamily, FamilyTables>();
  /** By what is counted and family, so that a sync need not go through all Services. */
  readonly #counts = new Map<string, number>();
  readonly #udp = new UdpDestinations();
  /** Service ports with reserved addresses; nearly always none. */
  readonly #withReserved = new Set<ServicePortRules>();
  readonly #claims: TableClaims;

  /** `held`: what Services held in an earlier run; `ages`: of claims. */
  constructor(held?: Holders, ages?: ClaimAges) {
    this.#claims = new PortClaims(held, ages);
  }

  /** Who has which address and port, of those that Services ask for. */
  get claims(): Pick<TableClaims, "lost" | "lostTo" | "undecided" | "settle" | "contestedHolders"> {
    return this.#claims;
  }

  /** Services that turn out to be served there already have it before those of equal rank. */
  holdClaims(holders: Holders): void {
    for (const [key, holder] of holders) {
      const family = this.#claims.of(key)[0]?.plan.servicePort.family;
      if (family !== undefined) this.#tables(family).hold(key, holder);
    }
  }

  /** Of all service ports of a family. */
  endpointCount(family: IpFamily): number {
    return this.#counts.get(`endpoints ${family}`) ?? 0;
  }

  /** Makes this all that a Service wants in a family. Yields after each service port, and part of it is as it was then. */
  *replace(plan: ServiceRules): Generator<void, void> {
    const { family, service, servicePorts } = plan;
    const key = `${family} ${service}`;
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

  #replacePort(family: IpFamily, port: string, ...change: PortChange): void {
    const [before, after] = change;
    this.#tables(family).replacePort(port, ...change);
    this.#udp.replace(...change);
    if (before !== undefined) this.#withReserved.delete(before);
    if (after !== undefined && after.reserved.length > 0) this.#withReserved.add(after);
  }

  /** What tracked UDP flows are to be compared with, since this was last asked. */
  takeTouchedUdp(): readonly UdpDestination[] {
    return this.#udp.takeTouched(this.#winnerAt);
  }

  /** What any tracked UDP flow may be compared with. */
  allUdp(): readonly UdpDestination[] {
    return this.#udp.all(this.#winnerAt);
  }

  /** What a Service wants at present; empty where it wants nothing. */
  rulesOf(family: IpFamily, service: ServiceName): readonly ServicePortRules[] {
    return this.#services.get(`${family} ${service}`)?.servicePorts ?? none;
  }

  /** External and load-balancer IPs to which no rule leads, with who asks for them. */
  reservedAddresses(): readonly OwnedReservedAddress[] {
    return unservedAddresses(this.#withReserved);
  }

  /** Everything one family's tables should hold. Yields after each chain that service ports share. */
  ruleSet(family: IpFamily, options: IptablesOptions): Generator<void, RuleSet> {
    return this.#tables(family).ruleSet(options);
  }

  /**
   * Chains that changed since this was last asked, as they should be when they are taken from the iterable. Those of
   * `fixed-chains.ts` never do.
   */
  takeTouched(family: IpFamily, options: IptablesOptions): Iterable<TouchedChain> {
    return this.#tables(family).takeTouched(options);
  }

  /** Service ports with a Local policy whose endpoints are all on other nodes. */
  withoutLocalEndpoints(policy: TrafficPolicy, family: IpFamily): number {
    return this.#counts.get(`${policy} ${family}`) ?? 0;
  }

  /** `times` -1: they want nothing any more. */
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

  readonly #winnerAt: WinnerAt = (key) => this.#claims.winner(key)?.plan;

  #tables(family: IpFamily): FamilyTables {
    const touchUdp = (key: string): void => this.#udp.touch(key);
    const tables = this.#families.get(family) ?? new FamilyTables(family, this.#claims, touchUdp);
    this.#families.set(family, tables);
    return tables;
  }
}
