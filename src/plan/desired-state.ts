import type { ServiceName } from "../api/objects.ts";
import { familyOf, type IpAddress, type IpFamily } from "../base/ip.ts";
import { none } from "../base/none.ts";
import { type FamilyServiceKey, familyServiceKey } from "../base/service-name.ts";
import { finish } from "../base/time-slice.ts";
import { servicePortName } from "../model/service-port.ts";
import { type TrafficPolicy, trafficPolicies } from "../model/topology.ts";
import type { ServedRange } from "../state/served-range.ts";
import { addressEntry, type SetEntry } from "../state/set-entry.ts";
import { type AddressServerId, type ServerKey, virtualServerKey } from "../state/virtual-server.ts";
import { type Effects, effectsOnOthers } from "./claims/bystanders.ts";
import type { Holder, Holders } from "./claims/claim.ts";
import type { ClaimAges } from "./claims/claim-ages.ts";
import type { WinnerChange } from "./claims/claims.ts";
import { isSamePlanned, type ServerClaim, ServerClaims } from "./claims/server-claims.ts";
import { type DirtyKeys, entryKey, type FormerKey, noMarks } from "./dirty-keys.ts";
import { OwnedRanges, tunnelsWithoutMark } from "./owned-ranges.ts";
import { byServicePort, Owners, serviceNames } from "./owners.ts";
import type { PlannedVirtualServer, ServicePortPlan } from "./service-port-plan.ts";
import { type SetRole, setFor, setRoles } from "./sets.ts";

/**
 * The combination of all service-port plans. It is updated one Service at a time and records which keys each update
 * affects, so that the cost of a sync scales with the change. Uses no clock, log or kernel.
 */
export class DesiredState {
  readonly #plans = new Map<FamilyServiceKey, readonly ServicePortPlan[]>();
  readonly #claims: ServerClaims;
  readonly #entries = new Map<string, Owners<SetEntry>>();
  /** Set entries that no Service owns, by set name. */
  readonly #nodeEntries = new Map<string, ReadonlySet<SetEntry>>();
  readonly #addresses = new Owners<IpAddress>();
  readonly #denied = new Map<ServerKey, { readonly id: AddressServerId; owners: number }>();
  readonly #withoutLocal = new Map<string, number>();
  readonly #ranges = new OwnedRanges();
  readonly contenders: Set<ServiceName> = this.#ranges.contenders;
  #dirty = noMarks();

  /** `held` names the owners of contested addresses in an earlier run. `ages` says when each claim was first seen. */
  constructor(held?: Holders, ages?: ClaimAges) {
    this.#claims = new ServerClaims(held, ages);
  }

  /** Replaces this Service's plans in this family with `plans`. */
  replace(service: ServiceName, family: IpFamily, plans: readonly ServicePortPlan[]): void {
    finish(this.replaceInSteps(service, family, plans));
  }

  /**
   * Like {@link replace}, but yields after each service port. At each yield, the remaining ports still have their
   * previous plans.
   */
  *replaceInSteps(
    service: ServiceName,
    family: IpFamily,
    plans: readonly ServicePortPlan[],
  ): Generator<void, void> {
    const owner = familyServiceKey(family, service);
    const previous = this.#plans.get(owner) ?? none;
    // Nearly every Service has plans in only one of the two families.
    if (previous.length === 0 && plans.length === 0) return;
    const before = byServicePort(previous);
    const after = byServicePort(plans);
    for (const [key, plan] of after) {
      this.#replacePlan(family, before.get(key), plan);
      yield;
    }
    for (const [key, plan] of before) {
      if (after.has(key)) continue;
      this.#replacePlan(family, plan, undefined);
      yield;
    }
    if (after.size === 0) this.#plans.delete(owner);
    else this.#plans.set(owner, [...after.values()]);
  }

  /** Returns the keys marked since the last call, and clears the marks. */
  takeDirty(): DirtyKeys {
    const dirty = this.#dirty;
    this.#dirty = noMarks();
    return dirty;
  }

  /** Whether another Service has this virtual server. */
  isOfAnother(service: ServiceName, key: ServerKey): boolean {
    const winner = this.#claims.winner(key);
    return winner !== undefined && winner.plan.servicePort.service !== service;
  }

  /** This Service's plans in this family, including virtual servers that other Services own. */
  plansOf(service: ServiceName, family: IpFamily): readonly ServicePortPlan[] {
    return this.#plans.get(familyServiceKey(family, service)) ?? none;
  }

  virtualServer(key: ServerKey): PlannedVirtualServer | undefined {
    return this.#claims.winner(key)?.planned;
  }

  *virtualServerKeys(): Iterable<ServerKey> {
    for (const key of this.#claims.keys()) if (this.virtualServer(key) !== undefined) yield key;
  }

  hasEntry(setName: string, entry: SetEntry): boolean {
    return (this.#entries.get(setName) ?? this.#nodeEntries.get(setName))?.has(entry) ?? false;
  }

  entries(setName: string): Iterable<SetEntry> {
    return (this.#entries.get(setName) ?? this.#nodeEntries.get(setName))?.values() ?? [];
  }

  entryCount(setName: string): number {
    return (this.#entries.get(setName) ?? this.#nodeEntries.get(setName))?.size ?? 0;
  }

  hasAddress(address: IpAddress): boolean {
    return this.#addresses.has(address);
  }

  addresses(): Iterable<IpAddress> {
    return this.#addresses.values();
  }

  /** Roles of the family's sets that contain at least one entry. */
  filledSets(family: IpFamily): ReadonlySet<SetRole> {
    return new Set(setRoles.filter((role) => this.entryCount(setFor(role, family).name) > 0));
  }

  /**
   * Frontends that this node must not use, in a stable order: those of load balancers and, if source ranges are strict,
   * those of node ports.
   */
  deniedToNode(family: IpFamily): readonly AddressServerId[] {
    return [...this.#denied]
      .filter(([, { id }]) => familyOf(id.address) === family)
      .sort(([left], [right]) => (left < right ? -1 : 1))
      .map(([, { id }]) => id);
  }

  ranges(family: IpFamily): readonly ServedRange[] {
    return this.#ranges.of(family, false);
  }

  tunnels(family: IpFamily): readonly ServedRange[] {
    return this.#ranges.of(family, true);
  }

  tunnelsWithoutMark(family: IpFamily): readonly ServedRange[] {
    return tunnelsWithoutMark(this.#claims.losing(), family);
  }

  /** Replaces the addresses of other Nodes, which may send tunneled packets. No Service owns their set entries. */
  noteTunnelNodes(family: IpFamily, addresses: Iterable<IpAddress>): void {
    const { name } = setFor("tunnelNodes", family);
    const before = this.#nodeEntries.get(name) ?? new Set();
    const after = new Set([...addresses].map(addressEntry));
    this.#nodeEntries.set(name, after);
    for (const entry of [...before, ...after]) {
      if (before.has(entry) !== after.has(entry)) this.#markEntry(name, entry);
    }
    if ((before.size === 0) !== (after.size === 0)) this.#dirty.rules.add(family);
  }

  /** The claims of Services to virtual servers, which determine the owner of each. */
  get claims(): Pick<
    ServerClaims,
    "lost" | "lostTo" | "reserved" | "undecided" | "settle" | "contestedHolders"
  > {
    return this.#claims;
  }

  /**
   * Records that these Services are already served at these addresses. Their claims now precede other claims of equal
   * rank.
   */
  holdClaims(holders: Holders<ServerKey>): void {
    for (const [key, holder] of holders) this.#holdClaim(key, holder);
  }

  /** Name of the service port for which a virtual server is planned. */
  claimantOf(key: ServerKey): string | undefined {
    const winner = this.#claims.winner(key);
    return winner === undefined ? undefined : servicePortName(winner.plan.servicePort);
  }

  /** Services that request this virtual server. The first one owns it. */
  servicesOfServer(key: ServerKey): readonly ServiceName[] {
    return this.#claims.of(key).map(({ plan }) => plan.servicePort.service);
  }

  servicesOfEntry(setName: string, entry: SetEntry): readonly ServiceName[] {
    return serviceNames(this.#entries.get(setName)?.of(entry) ?? none);
  }

  servicesOfAddress(address: IpAddress): readonly ServiceName[] {
    return serviceNames(this.#addresses.of(address));
  }

  /**
   * Keys of the planned virtual servers that need this address on kube-ipvs0. If the address lost the mark of its
   * ranges to another address, it does not need the virtual server of the mark.
   */
  serversOfAddress(address: IpAddress): readonly ServerKey[] {
    const planned = this.#addresses.of(address).flatMap(({ virtualServers }) => virtualServers);
    const servers = planned.filter(({ range }) => range?.tunnel === undefined);
    return servers.flatMap(({ virtualServer, range }) => {
      const key = virtualServerKey(virtualServer);
      const served = range === undefined ? virtualServer : this.virtualServer(key)?.range;
      return served?.address === address ? [key] : [];
    });
  }

  /** Number of service ports for which this policy is Local and all usable endpoints are on other nodes. */
  withoutLocalEndpoints(policy: TrafficPolicy, family: IpFamily): number {
    return this.#withoutLocal.get(`${policy} ${family}`) ?? 0;
  }

  #replacePlan(
    family: IpFamily,
    previous: ServicePortPlan | undefined,
    next: ServicePortPlan | undefined,
  ): void {
    const before = previous === undefined ? none : [this.#effectsOf(previous)];
    const lost: Effects[] = [];
    const won: Effects[] = [];
    this.#claims.replace(previous, next, (key, change) => {
      this.#noteWinner(key, change, previous);
      const others = effectsOnOthers(key, change, [previous, next]);
      lost.push(...others.lost);
      won.push(...others.won);
    });
    const after = next === undefined ? none : [this.#effectsOf(next)];
    this.#exchange(family, [...before, ...lost], [...after, ...won]);
    for (const address of next?.addresses ?? none) {
      if (this.#addresses.add(address, next as ServicePortPlan)) this.#dirty.addresses.add(address);
    }
    for (const address of previous?.addresses ?? none) {
      if (!this.#addresses.remove(address, previous as ServicePortPlan)) continue;
      this.#dirty.addresses.add(address);
      this.#noteFormer(address, previous as ServicePortPlan);
    }
    this.#countWithoutLocal(family, previous, -1);
    this.#countWithoutLocal(family, next, 1);
  }

  #holdClaim(key: ServerKey, holder: Holder): void {
    const family = this.#claims.of(key)[0]?.plan.servicePort.family;
    if (family === undefined) return;
    const change = this.#claims.hold(key, holder);
    this.#noteWinner(key, change, undefined);
    const { lost, won } = effectsOnOthers(key, change, none);
    this.#exchange(family, lost, won);
  }

  #noteWinner(
    key: ServerKey,
    change: WinnerChange<ServerClaim>,
    previous: ServicePortPlan | undefined,
  ): void {
    if (!isSamePlanned(change)) this.#markServer(key, previous);
    const family = this.#ranges.note(key, change);
    if (family !== undefined) this.#dirty.rules.add(family);
  }

  #exchange(family: IpFamily, before: readonly Effects[], after: readonly Effects[]): void {
    // Add before removing, so that an entry that both plans request never disappears in between.
    for (const { plan, setEntries } of after) {
      for (const { set, entry } of setEntries) this.#addEntry(plan, set.name, entry);
    }
    for (const { plan, setEntries } of before) {
      for (const { set, entry } of setEntries) this.#removeEntry(plan, set.name, entry);
    }
    for (const id of after.flatMap(({ deniedToNode }) => deniedToNode)) this.#deny(family, id);
    for (const id of before.flatMap(({ deniedToNode }) => deniedToNode)) this.#admit(family, id);
  }

  /** The current effects of a service port's plan, which do not include virtual servers that another Service owns. */
  #effectsOf(plan: ServicePortPlan): Effects {
    return {
      plan,
      setEntries: plan.setEntries.filter(
        ({ claim }) => claim === undefined || this.#claims.isWonBy(plan, claim),
      ),
      deniedToNode: plan.deniedToNode.filter((id) =>
        this.#claims.isWonBy(plan, virtualServerKey(id)),
      ),
    };
  }

  #countWithoutLocal(family: IpFamily, plan: ServicePortPlan | undefined, by: number): void {
    for (const policy of trafficPolicies) {
      if (plan?.hasNoLocalEndpoints[policy] !== true) continue;
      const key = `${policy} ${family}`;
      this.#withoutLocal.set(key, (this.#withoutLocal.get(key) ?? 0) + by);
    }
  }

  #addEntry(plan: ServicePortPlan, setName: string, entry: SetEntry): void {
    const owners = this.#entries.get(setName) ?? new Owners<SetEntry>();
    this.#entries.set(setName, owners);
    if (!owners.add(entry, plan)) return;
    this.#markEntry(setName, entry);
    if (owners.size === 1) this.#dirty.rules.add(plan.servicePort.family);
  }

  #removeEntry(plan: ServicePortPlan, setName: string, entry: SetEntry): void {
    const owners = this.#entries.get(setName);
    if (owners === undefined || !owners.remove(entry, plan)) return;
    this.#markEntry(setName, entry);
    this.#noteFormer(entryKey(setName, entry), plan);
    if (owners.size === 0) this.#dirty.rules.add(plan.servicePort.family);
  }

  #markServer(key: ServerKey, previous: ServicePortPlan | undefined): void {
    this.#dirty.virtualServers.add(key);
    if (previous !== undefined) this.#noteFormer(key, previous);
  }

  #noteFormer(subject: FormerKey, { servicePort }: ServicePortPlan): void {
    this.#dirty.formerServices.set(subject, servicePort.service);
  }

  #markEntry(setName: string, entry: SetEntry): void {
    const marks = this.#dirty.setEntries.get(setName) ?? new Set<SetEntry>();
    this.#dirty.setEntries.set(setName, marks.add(entry));
  }

  #deny(family: IpFamily, id: AddressServerId): void {
    const key = virtualServerKey(id);
    const denied = this.#denied.get(key);
    if (denied !== undefined) {
      denied.owners += 1;
      return;
    }
    this.#denied.set(key, { id, owners: 1 });
    this.#dirty.rules.add(family);
  }

  #admit(family: IpFamily, id: AddressServerId): void {
    const key = virtualServerKey(id);
    const denied = this.#denied.get(key);
    if (denied === undefined) return;
    denied.owners -= 1;
    if (denied.owners > 0) return;
    this.#denied.delete(key);
    this.#dirty.rules.add(family);
  }
}

/** The part of the desired state that the reconciler reads. */
export type DesiredView = Pick<
  DesiredState,
  | "virtualServer"
  | "virtualServerKeys"
  | "hasEntry"
  | "entries"
  | "hasAddress"
  | "addresses"
  | "serversOfAddress"
  | "servicesOfServer"
  | "servicesOfEntry"
  | "servicesOfAddress"
  | "ranges"
  | "tunnels"
>;
