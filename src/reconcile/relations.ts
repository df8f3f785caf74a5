/**
 * Defines which planned resource depends on which, in both directions. Pure.
 *
 * A dependent is created only if all its dependencies exist. If a `lifetime` dependency is lost and cannot be restored,
 * the dependent is withdrawn. A dependency is removed only after the dependents that must also be removed.
 *
 * | dependent | dependency | strength |
 * |---|---|---|
 * | virtual server for a port range with source ranges | the chain that marks its packets | lifetime |
 * | set entry | its set | create |
 * | entry of KUBE-LOAD-BALANCER | the limits of its address and port | lifetime |
 * | virtual server | the entries that identify it as ours | create |
 * | virtual server, also for tunnels | the limits of its address and port | lifetime |
 * | real server | its virtual server, and the limits of that virtual server | create |
 * | address | kube-ipvs0 | create |
 * | address | the address guard; any one of its virtual servers; those of its port ranges | lifetime |
 * | link that receives tunneled packets | the tunnel chains, the jumps to them, the set of Nodes | lifetime |
 *
 * The limits of an address and port with source ranges consist of its entry in KUBE-LOAD-BALANCER-FW, no source entries
 * other than the desired ones, the two firewall chains, and the jump to them. If this node is blocked, they also
 * include its rule and jump in OUTPUT. The address guard consists of the address's entry in KUBE-IPVS-IPS, the chain
 * KUBE-IPVS-FILTER, and the jump to it.
 */
import { familyOf, type IpFamily, ipFamilies } from "../base/ip.ts";
import { protocolNumbers } from "../base/protocol.ts";
import type { DesiredView } from "../plan/desired-state.ts";
import { type SetRole, setFor } from "../plan/sets.ts";
import { tunnelChain, tunnelForwardChain } from "../plan/tunnel-rules.ts";
import { dummyLinkName } from "../state/dummy-link.ts";
import { type ChainKey, chainKey, type Rule, type RuleSet, type TableName } from "../state/rule.ts";
import { serves } from "../state/served-range.ts";
import { addressEntry, addressPortEntry, portEntry, type SetEntry } from "../state/set-entry.ts";
import { tunnelLinks } from "../state/tunnel-link.ts";
import {
  type AddressServerId,
  markServerId,
  type VirtualServerId,
  virtualServerKey,
} from "../state/virtual-server.ts";
import { isAsStrict } from "./kinds/restrictions.ts";
import {
  addressGuard,
  chainsOfGuard,
  chainsOfLimits,
  firewallChains,
  isGuardSet,
  isLimitSet,
  nodeFirewall,
  serverOfEntry,
  sourceRoles,
} from "./limits.ts";
import type { CachedState } from "./observed/cached-state.ts";
import { addressSetRoles, nodePortSetRoles } from "./ownership/set-marks.ts";
import {
  type DenialKey,
  denialKey,
  denialsIn,
  familyOfSet,
  filterChain,
  guarded,
  limited,
  limitedServer,
  marksOfRanges,
} from "./relation-subjects.ts";
import { type Subject, type SubjectKey, type SubjectType, subjectKey } from "./subject.ts";

export interface RelationView {
  readonly cached: CachedState;
  readonly desired: Pick<
    DesiredView,
    | "virtualServer"
    | "hasEntry"
    | "entries"
    | "hasAddress"
    | "serversOfAddress"
    | "ranges"
    | "tunnels"
  >;
  /** The planned rules. A family without planned rules has none of our chains. */
  readonly rules: ReadonlyMap<IpFamily, RuleSet>;
  /** Resources that satisfy no dependency because third parties have recently removed them too often. */
  readonly distrusted: ReadonlyMap<SubjectKey, Subject>;
}

/** A requirement is satisfied if the resource exists and is at least as strict as planned. */
interface Requirement {
  readonly subject: Subject;
  /** The rule that the chain must contain. If undefined, the chain must contain all restricting rules. */
  readonly rule?: Rule;
  /** Belongs to the address guard: counts as existing while its repair is paced, and is never distrusted. */
  readonly isGuard?: true;
}

type Dependency = Requirement | { readonly anyOf: readonly Requirement[] };

/** The chains for tunnels, and the built-in chains with jumps to them. */
const tunnelChains = [
  ["filter", tunnelChain, "INPUT"],
  ["filter", tunnelForwardChain, "FORWARD"],
  ["mangle", tunnelChain, "PREROUTING"],
] as const;

type SubjectOf<Type extends SubjectType> = Extract<Subject, { readonly type: Type }>;

/** `lost`: subjects that are assumed not to exist. `paced`: subjects whose repair waits for up to a second. */
interface Assumptions {
  readonly lost: ReadonlySet<SubjectKey>;
  readonly paced: ReadonlySet<SubjectKey>;
}

const noAssumptions: Assumptions = { lost: new Set(), paced: new Set() };

export class Relations {
  readonly #view: RelationView;
  /** The planned rules that block this node, by virtual server. */
  readonly #denials = new Map<IpFamily, ReadonlyMap<DenialKey, Rule>>();
  /** Results of chain comparisons, valid while the cached rules are unchanged. */
  #compared: { rules: unknown; version: number; readonly strict: Map<ChainKey, boolean> } = {
    ...{ rules: undefined, version: 0, strict: new Map() },
  };

  constructor(view: RelationView) {
    this.#view = view;
  }

  /** Whether every dependency of a resource exists. */
  canBeCreated(dependent: Subject): boolean {
    // A set of a different type must be destroyed first.
    if (dependent.type === "set") return !this.#view.cached.sets.has(dependent.setName);
    return this.#haveAll(this.#needsToBeCreated(dependent)) && this.canStay(dependent);
  }

  /** Whether every `lifetime` dependency exists. */
  canStay(dependent: Subject, assumptions: Assumptions = noAssumptions): boolean {
    return this.#haveAll(this.#needsForLife(dependent), assumptions);
  }

  /** All resources that may have a `lifetime` dependency on this one. They are withdrawn if it is lost. */
  *dependentsOf(dependency: Subject): Generator<Subject> {
    if (dependency.type === "entry") {
      if (isLimitSet(dependency.setName)) yield* this.#limited(dependency.entry);
      else if (isGuardSet(dependency.setName)) yield* guarded(dependency.entry);
    } else if (dependency.type === "chain" && dependency.table === "filter") {
      const { family, chainName } = dependency;
      if (chainsOfLimits.has(chainName))
        yield* this.#forEach("loadBalancerFirewall", family, (entry) => this.#limited(entry));
      if (chainsOfGuard.has(chainName)) yield* this.#forEach("ipvsIps", family, guarded);
    } else if (dependency.type === "chain" && dependency.table === "mangle") {
      const { family } = dependency;
      for (const { sources, mark } of this.#view.desired.ranges(family)) {
        const virtualServer = virtualServerKey(markServerId(family, mark));
        if (sources !== undefined) yield { type: "virtual-server", virtualServer };
      }
    } else if (dependency.type === "virtual-server") {
      const server = this.#view.desired.virtualServer(dependency.virtualServer);
      if (server === undefined) return;
      yield { type: "address", address: (server.range ?? server.virtualServer).address };
    }
  }

  /** The dependents of a limit, including the virtual servers for tunnels. */
  *#limited(entry: SetEntry): Generator<Subject> {
    yield* limited(entry);
    const server = serverOfEntry(entry);
    const family = server === undefined ? "IPv4" : familyOf(server.address);
    for (const range of this.#view.desired.tunnels(family)) {
      const virtualServer = virtualServerKey(markServerId(family, range.mark));
      if (server !== undefined && serves(range, server))
        yield { type: "virtual-server", virtualServer };
    }
  }

  *#forEach(
    role: SetRole,
    family: IpFamily,
    dependents: (entry: SetEntry) => Generator<Subject>,
  ): Generator<Subject> {
    for (const entry of this.#view.desired.entries(setFor(role, family).name)) {
      yield* dependents(entry);
    }
  }

  #haveAll(dependencies: Iterable<Dependency>, assumptions = noAssumptions): boolean {
    for (const dependency of dependencies) {
      const alternatives = "anyOf" in dependency ? dependency.anyOf : [dependency];
      if (!alternatives.some((one) => this.#exists(one, assumptions))) return false;
    }
    return true;
  }

  *#needsToBeCreated(dependent: Subject): Generator<Dependency> {
    if (dependent.type === "entry") {
      yield { subject: { type: "set", setName: dependent.setName } };
    } else if (dependent.type === "virtual-server") {
      yield* this.#marksOf(dependent);
    } else if (dependent.type === "real-server") {
      const { virtualServer } = dependent;
      const server = { type: "virtual-server", virtualServer } as const;
      yield { subject: server };
      // The virtual server may remain from an open Service until it is withdrawn.
      yield* this.#needsForLife(server);
    } else if (dependent.type === "address") {
      yield { subject: { type: "link", link: dummyLinkName } };
    }
  }

  *#needsForLife(dependent: Subject): Generator<Dependency> {
    if (dependent.type === "entry") {
      const { setName, entry } = dependent;
      const isPermit = setName === setFor("loadBalancer", familyOfSet(setName)).name;
      const server = isPermit ? serverOfEntry(entry) : undefined;
      if (server !== undefined) yield* this.#limitsOf(server);
    } else if (dependent.type === "virtual-server") {
      const planned = this.#view.desired.virtualServer(dependent.virtualServer);
      const { sources, tunnel } = planned?.range ?? {};
      if (planned === undefined) return;
      if (sources !== undefined && tunnel === undefined) yield { subject: marksOfRanges(planned) };
      else yield* this.#limitsOf(limitedServer(planned));
    } else if (dependent.type === "link") {
      for (const family of ipFamilies)
        if (dependent.link === tunnelLinks[family].name) yield* this.#guardsOfTunnel(family);
    } else if (dependent.type === "address") {
      yield* this.#guardsOf(dependent);
      const { desired } = this.#view;
      const servers = desired
        .serversOfAddress(dependent.address)
        .map(
          (virtualServer): Requirement => ({ subject: { type: "virtual-server", virtualServer } }),
        );
      yield { anyOf: servers };
      // The address guard lets marked packets pass.
      for (const virtualServer of desired.serversOfAddress(dependent.address)) {
        const isOfRange = desired.virtualServer(virtualServer)?.range !== undefined;
        if (isOfRange) yield { subject: { type: "virtual-server", virtualServer } };
      }
    }
  }

  *#guardsOfTunnel(family: IpFamily): Generator<Dependency> {
    const { name: setName } = setFor("tunnelNodes", family);
    yield { subject: { type: "set", setName } };
    for (const [table, chainName, from] of tunnelChains) {
      yield { subject: { type: "chain", family, table, chainName } };
      yield* this.#jumpTo(chainName, family, from, table);
    }
  }

  *#guardsOf({ address }: SubjectOf<"address">): Generator<Dependency> {
    const family = familyOf(address);
    const { name: setName } = setFor("ipvsIps", family);
    yield { subject: { type: "entry", setName, entry: addressEntry(address) }, isGuard: true };
    yield { subject: filterChain(family, addressGuard), isGuard: true };
    for (const jump of this.#jumpTo(addressGuard, family, "INPUT"))
      yield { ...jump, isGuard: true };
  }

  /**
   * The entries that identify a virtual server as ours. Without them, the virtual server would be treated as foreign if
   * the program exited before the next sync.
   */
  *#marksOf({ virtualServer: key }: SubjectOf<"virtual-server">): Generator<Dependency> {
    const server = this.#view.desired.virtualServer(key)?.virtualServer;
    if (server === undefined) return;
    const { address, protocol, port } = server;
    if (protocol === "FWM") return;
    const family = familyOf(address);
    const entry = addressPortEntry(address, protocol, port);
    const ofPort = protocol === "SCTP" ? entry : portEntry(port);
    const { cached, desired } = this.#view;
    for (const role of [...addressSetRoles, nodePortSetRoles[protocol]]) {
      const { name: setName } = setFor(role, family);
      const mark = role === nodePortSetRoles[protocol] ? ofPort : entry;
      // If a set cannot be created, its entries are not required, because Services are also served without it.
      if (!desired.hasEntry(setName, mark) || !cached.setEntries.has(setName)) continue;
      yield { subject: { type: "entry", setName, entry: mark } };
    }
  }

  *#limitsOf({ protocol, ...server }: VirtualServerId): Generator<Dependency> {
    if (protocol === "FWM") return;
    const family = familyOf(server.address);
    const entry = addressPortEntry(server.address, protocol, server.port);
    const { name: setName } = setFor("loadBalancerFirewall", family);
    if (!this.#view.desired.hasEntry(setName, entry)) return;
    yield { subject: { type: "entry", setName, entry } };
    for (const chainName of firewallChains) yield { subject: filterChain(family, chainName) };
    yield* this.#jumpTo("KUBE-PROXY-FIREWALL", family, "INPUT");
    const denial = this.#denialOf({ ...server, protocol }, family);
    if (denial === undefined) return;
    yield { subject: filterChain(family, nodeFirewall), rule: denial };
    yield* this.#jumpTo(nodeFirewall, family, "OUTPUT");
  }

  *#jumpTo(
    chain: string,
    family: IpFamily,
    from: string,
    place: TableName = "filter",
  ): Generator<Requirement> {
    const jump = this.#view.rules
      .get(family)
      ?.jumps.find(
        ({ table, from: origin, rule: { target } }) =>
          table === place && origin === from && target.kind === "jump" && target.chain === chain,
      );
    if (jump === undefined) return;
    yield { subject: { type: "chain", family, table: place, chainName: from }, rule: jump.rule };
  }

  #denialOf(server: AddressServerId, family: IpFamily): Rule | undefined {
    const known = this.#denials.get(family) ?? denialsIn(this.#view.rules.get(family));
    this.#denials.set(family, known);
    return known.get(denialKey(protocolNumbers[server.protocol], server.address, server.port));
  }

  #exists({ subject, rule, isGuard }: Requirement, { lost, paced }: Assumptions): boolean {
    const key = subjectKey(subject);
    if (isGuard === true && paced.has(key)) return true;
    if (lost.has(key) || (isGuard !== true && this.#view.distrusted.has(key))) return false;
    const { cached, desired } = this.#view;
    switch (subject.type) {
      case "link":
        return cached.hasLink;
      case "set":
        return cached.setEntries.has(subject.setName);
      case "entry":
        return cached.hasEntry(subject.setName, subject.entry) && !this.#admitsMore(subject);
      case "virtual-server":
        // Virtual servers that a third party owns are not in `desired`.
        return (
          cached.virtualServers.has(subject.virtualServer) &&
          desired.virtualServer(subject.virtualServer) !== undefined
        );
      case "chain":
        return this.#isStrict(subject, rule);
      default:
        return true;
    }
  }

  /** Whether source entries exist that are no longer desired and still admit clients. */
  #admitsMore({ setName, entry }: SubjectOf<"entry">): boolean {
    const family = familyOfSet(setName);
    if (setName !== setFor("loadBalancerFirewall", family).name) return false;
    return sourceRoles.some((role) => {
      const { name } = setFor(role, family);
      const present = this.#view.cached.setEntries.get(name) ?? [];
      for (const source of present) {
        if (source.startsWith(`${entry},`) && !this.#view.desired.hasEntry(name, source))
          return true;
      }
      return false;
    });
  }

  #isStrict({ family, table, chainName }: SubjectOf<"chain">, rule: Rule | undefined): boolean {
    const planned = this.#view.rules.get(family);
    const cached = this.#view.cached.rules.get(family);
    if (planned === undefined || cached?.plan === planned) return true;
    const place = chainKey(table, chainName);
    if (cached === undefined) return false;
    const texts = cached.texts(place) ?? cached.jumps.get(place) ?? [];
    const render = (one: Rule): string => cached.text(one);
    if (rule !== undefined) return texts.includes(render(rule));
    const { version } = cached;
    if (this.#compared.rules !== cached || this.#compared.version !== version) {
      this.#compared = { rules: cached, version, strict: new Map() };
    }
    const { strict } = this.#compared;
    const chain = planned.chains.find((one) => one.table === table && one.name === chainName);
    const isStrict = strict.get(place) ?? isAsStrict(texts, chain?.rules.map(render) ?? []);
    strict.set(place, isStrict);
    return isStrict;
  }
}
