import { BackOff } from "../../api/cluster/back-off.ts";
import type { EndpointSliceRecord, NodeRecord, ServiceRecord } from "../../api/objects.ts";
import type { Nodes, ObjectSource } from "../../api/source.ts";
import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { IpAddress } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { Networks } from "../../base/networks.ts";
import { none } from "../../base/none.ts";
import { UseCounts } from "../../base/use-counts.ts";
import { NodeTraits } from "./node-traits.ts";
import { type ClaimKind, claimKinds, type PendingAddresses } from "./unchecked-claims.ts";

export interface OtherNodesContext {
  readonly source: Pick<ObjectSource, "listNodes">;
  readonly clock: Clock;
  readonly log: Logger;
  /** This node's name. The Node with this name is skipped, because its addresses are known from its links. */
  readonly nodeName: string;
  /** Shortest pause between two reads. If 0, Nodes are never read and no address is reserved. */
  readonly periodMs: number;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  /** Called when {@link OtherNodes.reserved}, `podNetworks`, `traits`, `isReady` or `hasFailed` changes. */
  readonly onChange: () => void;
  /** Called when {@link OtherNodes.pending} may have become smaller. */
  readonly onChecked?: () => void;
  /** Addresses that an earlier run checked before it served them. Undefined if there are none. */
  readonly readServed?: () => Promise<Iterable<IpAddress>>;
  /** Whether the configuration enables Node weights for all Services. Absent means no. */
  readonly areWeightsDefault?: () => boolean;
}

/**
 * The pause after a read is this long for each Node in the cluster. A Node object is about 10 KB, so each kube-ipvs
 * reads at most 10 KB/s from the API servers.
 */
const pausePerNodeMs = 1_000;
/** How long the first sync waits for the first read. */
const longestWaitMs = 5_000;
/**
 * When a Service names a new external IP, Nodes are read within this time, or within {@link claimPausePerNodeMs} per
 * Node if that is longer. For a load-balancer IP, {@link pausePerNodeMs} applies. The delay is random, because all nodes
 * receive the Service at the same time. The time limit is also the shortest pause between two reads that new addresses
 * cause.
 */
const readingWithinMs = 1_000;
const claimPausePerNodeMs = 100;
/**
 * Maximum number of addresses to remember for each Node, including former ones. A Node has one or two in each family.
 */
const maxAddressesPerNode = 16;

/**
 * Anyone who may write a Service may name any external IP in it. Therefore a new external IP is neither bound nor
 * served until the arrival of a Node list that was requested after the Service named the IP. A controller writes
 * load-balancer IPs, not the author of the Service. They are pending only until the first list arrives or fails.
 * Because some controllers use Node addresses, Nodes are also read soon after a new load-balancer IP.
 *
 * This class knows the addresses of other Nodes that Services name as external or load-balancer IPs, the pod CIDRs of
 * all Nodes, and the weights and labels of Nodes. Nodes are read only while a Service needs one of these, at a pace
 * that depends on the number of Nodes. An address remains reserved as long as its Node exists, even after the Node's
 * status no longer lists it.
 */
export class OtherNodes {
  readonly #parts: OtherNodesContext;
  /** Addresses that Services name. */
  readonly #claims = new UseCounts<IpAddress>();
  /** Addresses that have not been compared with a list of Nodes since a Service named them. */
  readonly #unchecked: Readonly<Record<ClaimKind, Set<IpAddress>>> = {
    externalIps: new Set(),
    loadBalancerIps: new Set(),
  };
  /** Addresses of other Nodes, each with the name of its Node. */
  #owners: ReadonlyMap<IpAddress, string> = new Map();
  #reserved: ReadonlySet<IpAddress> = new Set();
  /** All Nodes, as last listed. */
  #nodes: Nodes = new Map();
  #own: NodeRecord | undefined;
  #podNetworks = new Networks();
  readonly traits: NodeTraits = new NodeTraits();
  /** The labels that the last list contains. Undefined if it contains all of them. */
  #listedLabels: ReadonlySet<string> | undefined;
  /** Whether an endpoint's Node is missing from the last list. */
  #isNodeMissing = false;
  readonly #abort = new AbortController();
  #isReady: boolean;
  #isReading = false;
  #hasFailed = false;
  readonly #backOff: BackOff;
  #nodeCount = 0;
  #lastReadMs = Number.NEGATIVE_INFINITY;
  /** The next scheduled read. */
  #next: { readonly atMs: number; readonly cancel: () => void } | undefined;
  #cancelWait: () => void = () => {};

  constructor(parts: OtherNodesContext) {
    this.#parts = parts;
    this.#isReady = !this.#canRead;
    this.#backOff = new BackOff(parts.clock, parts.random);
  }

  /** Whether planning may begin: the list of Nodes has arrived, is not needed, or the wait for it has timed out. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** Other Nodes' addresses that Services name. Returns the same object while they are unchanged. */
  get reserved(): ReadonlySet<IpAddress> {
    return this.#reserved;
  }

  /** The pod CIDRs of all Nodes. Returns the same object while they are unchanged. */
  get podNetworks(): Networks {
    return this.#podNetworks;
  }

  /** Addresses that may belong to another Node or a pod, and are not served yet. */
  get pending(): PendingAddresses {
    const isUnlisted = this.#nodes.size === 0 && !(this.#isReady && this.#hasFailed);
    return isUnlisted ? this.#unchecked : { ...this.#unchecked, loadBalancerIps: noAddresses };
  }

  /** Whether the last attempt to list Nodes failed. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  noteService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void {
    if (this.traits.noteService(previous, current)) this.#noteObjects();
    const [before, after] = [namedBy(previous), namedBy(current)];
    if (current !== undefined && after.size > 0) this.#check(current);
    const unclaimed = this.#claims.replace(before, after);
    for (const kind of claimKinds) this.#forget(kind, unclaimed);
    this.#update([...before, ...after]);
    this.noteNeeds();
  }

  /** Marks new addresses as unchecked, unless they are known Node addresses. */
  #check(service: ServiceRecord): void {
    if (!this.#canRead) return;
    const isNew = (address: IpAddress): boolean =>
      !this.#claims.has(address) || this.#unchecked.loadBalancerIps.has(address);
    const isUnknown = (address: IpAddress): boolean => isNew(address) && !this.#owners.has(address);
    const added = claimKinds.map((kind) => [kind, service[kind].filter(isUnknown)] as const);
    for (const [kind, addresses] of added)
      for (const address of addresses) this.#unchecked[kind].add(address);
  }

  #forget(kind: ClaimKind, addresses: Iterable<IpAddress>): void {
    for (const address of addresses) this.#unchecked[kind].delete(address);
  }

  /** If a Service names labels or uses tunnels, an endpoint on an unknown Node causes Nodes to be listed again. */
  noteSlice({ endpoints }: EndpointSliceRecord): void {
    if (this.#isNodeMissing || !this.traits.isNeeded) return;
    const isKnown = (name: string): boolean => name === "" || this.#nodes.has(name);
    if (endpoints.every(({ nodeName }) => isKnown(nodeName))) return;
    this.#isNodeMissing = true;
    this.noteNeeds();
  }

  /** Call this when Services or the configured defaults have changed, because more data about Nodes may be needed. */
  noteNeeds(): void {
    if (this.#isReady) this.#planReading(this.#delayAfterClaimMs());
  }

  #delayAfterClaimMs(): number {
    const { clock, random } = this.#parts;
    const perNodeMs = this.#isUrgent ? claimPausePerNodeMs : pausePerNodeMs;
    const windowMs = Math.max(readingWithinMs, this.#nodeCount * perNodeMs);
    const sinceLastMs = clock.monotonicMs() - this.#lastReadMs;
    return Math.max(random() * windowMs, windowMs - sinceLastMs);
  }

  /** Call this when all Services are listed. */
  noteListed(): void {
    if (this.#isReady) return;
    if (!this.#isNeeded) {
      this.#becomeReady();
      return;
    }
    const { clock, log } = this.#parts;
    this.#cancelWait = clock.after(longestWaitMs, () =>
      background(this.#stopWaiting(), log, "reading of served addresses"),
    );
    this.#planReading(0);
  }

  /** Records this node's own object, which is newer than the one in the list. */
  noteOwn(own: NodeRecord): void {
    this.#own = own;
    this.#noteObjects();
  }

  /** Records the list of all Nodes. Ignores an empty list, because every cluster has Nodes. */
  noteNodes(nodes: Nodes): void {
    if (nodes.size === 0 || this.#parts.periodMs === 0) return;
    this.#nodes = nodes;
    this.#noteObjects();
    const owners = new Map<IpAddress, string>();
    for (const [name, { addresses }] of nodes) {
      if (name === this.#parts.nodeName) continue;
      for (const address of addresses.slice(0, maxAddressesPerNode)) owners.set(address, name);
    }
    // Keep addresses that an existing Node no longer lists.
    const counts = new Map<string, number>();
    for (const [address, name] of this.#owners) {
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      if (nodes.has(name) && !owners.has(address) && count <= maxAddressesPerNode) {
        owners.set(address, name);
      }
    }
    this.#owners = owners;
    this.#update([...this.#claims.values(), ...this.#reserved]);
  }

  stop(): void {
    this.#abort.abort();
    this.#next?.cancel();
    this.#cancelWait();
  }

  get #isNeeded(): boolean {
    const areWeightsDefault = this.#parts.areWeightsDefault?.() ?? false;
    return this.#claims.size > 0 || this.traits.isNeeded || areWeightsDefault;
  }

  /** Whether Nodes must be listed again soon, because something is pending until then. */
  get #isUrgent(): boolean {
    const isListed = (label: string): boolean => this.#listedLabels?.has(label) !== false;
    const isLabelMissing = ![...this.traits.labels].every(isListed);
    return this.#unchecked.externalIps.size > 0 || this.#isNodeMissing || isLabelMissing;
  }

  /** Whether Nodes must be listed again before the usual period has passed. */
  get #isEarly(): boolean {
    return this.#isUrgent || this.#unchecked.loadBalancerIps.size > 0;
  }

  get #canRead(): boolean {
    return this.#parts.source.listNodes !== undefined && this.#parts.periodMs > 0;
  }

  /** Schedules a read, unless an earlier one is scheduled or no Service needs it. */
  #planReading(delayMs: number): void {
    const isNeeded = this.#canRead && this.#isNeeded && !this.#abort.signal.aborted;
    if (!isNeeded || this.#isReading) return;
    const { clock, log } = this.#parts;
    const atMs = clock.monotonicMs() + delayMs;
    if (this.#next !== undefined && (this.#next.atMs <= atMs || !this.#isEarly)) return;
    this.#next?.cancel();
    const cancel = clock.after(delayMs, () => {
      this.#next = undefined;
      if (!this.#isNeeded) return;
      background(this.#read(), log, "reading of Node addresses");
    });
    this.#next = { atMs, cancel };
  }

  async #read(): Promise<void> {
    const { signal } = this.#abort;
    const { clock, periodMs, random } = this.#parts;
    this.#isReading = true;
    const checked = claimKinds.map((kind) => [kind, [...this.#unchecked[kind]]] as const);
    const { labels } = this.traits;
    this.#isNodeMissing = false;
    const nodes = await this.#list(signal, labels);
    this.#isReading = false;
    this.#lastReadMs = clock.monotonicMs();
    if (signal.aborted) return;
    if (nodes === undefined) {
      this.#planReading(this.#backOff.nextDelayMs());
      return;
    }
    this.#nodeCount = nodes.size;
    this.#listedLabels = labels;
    this.noteNodes(nodes);
    this.#noteChecked(checked);
    this.#becomeReady();
    const pauseMs = Math.max(periodMs, nodes.size * pausePerNodeMs);
    this.#planReading(pauseMs * (1 + random() / 10));
    if (this.#isEarly) this.noteNeeds();
  }

  #noteChecked(checked: Iterable<readonly [ClaimKind, Iterable<IpAddress>]>): void {
    for (const [kind, addresses] of checked) this.#forget(kind, addresses);
    this.#parts.onChecked?.();
  }

  async #list(signal: AbortSignal, labels: ReadonlySet<string>): Promise<Nodes | undefined> {
    try {
      const nodes = await this.#parts.source.listNodes?.(signal, labels);
      if (nodes?.size === 0)
        throw new Error("the list of Nodes is empty, but every cluster has Nodes");
      this.#hasFailed = false;
      return nodes;
    } catch (error) {
      if (signal.aborted) return undefined;
      // Addresses from earlier lists remain reserved.
      const effect = "New external IPs are not served because they may be Node addresses";
      const advice = "Grant list on nodes, or set kubeIpvs.nodeAddressPeriod: 0s";
      const keys = { err: errorText(error), effect, advice };
      if (!this.#hasFailed) {
        this.#hasFailed = true;
        this.#parts.log.warn("Cannot list the addresses of other Nodes", keys);
        this.#noteChecked(none);
        this.#parts.onChange();
      }
      return undefined;
    }
  }

  /** Continues without a list of Nodes. Addresses that an earlier run served remain served. */
  async #stopWaiting(): Promise<void> {
    try {
      const served = [...((await this.#parts.readServed?.()) ?? none)];
      this.#noteChecked(claimKinds.map((kind) => [kind, served]));
    } finally {
      this.#becomeReady();
    }
  }

  #becomeReady(): void {
    this.#cancelWait();
    if (this.#isReady) return;
    this.#isReady = true;
    this.#noteChecked(none);
    this.#parts.onChange();
  }

  /** Updates the traits and pod CIDRs of all Nodes. */
  #noteObjects(): void {
    const own = this.#own;
    const all = new Map(own === undefined ? this.#nodes : [...this.#nodes, [own.name, own]]);
    const isListed = this.#nodes.size > 0 || this.#parts.source.listNodes === undefined;
    const listed = isListed ? this.#listedLabels : new Set<string>();
    const areTraitsChanged = this.traits.noteNodes(all, this.#parts.nodeName, listed);
    const isReserving = this.#parts.periodMs > 0;
    const cidrs = isReserving ? [...all.values()].flatMap(({ podCidrs }) => podCidrs) : none;
    const podNetworks = new Networks(cidrs);
    const areNetworksEqual = podNetworks.text === this.#podNetworks.text;
    if (!areNetworksEqual) this.#podNetworks = podNetworks;
    if (areTraitsChanged || !areNetworksEqual) this.#parts.onChange();
  }

  #update(addresses: readonly IpAddress[]): void {
    const isReserved = (one: IpAddress): boolean => this.#claims.has(one) && this.#owners.has(one);
    const changed = addresses.filter((one) => isReserved(one) !== this.#reserved.has(one));
    if (changed.length === 0) return;
    const reserved = new Set(this.#reserved);
    for (const one of changed) reserved.delete(one);
    for (const one of changed.filter(isReserved)) reserved.add(one);
    this.#reserved = reserved;
    this.#parts.onChange();
  }
}

/** The external and load-balancer IPs that a Service names, without duplicates. */
function namedBy(service: ServiceRecord | undefined): ReadonlySet<IpAddress> {
  if (service === undefined) return noAddresses;
  if (service.externalIps.length + service.loadBalancerIps.length === 0) return noAddresses;
  return new Set([...service.externalIps, ...service.loadBalancerIps]);
}

const noAddresses: ReadonlySet<IpAddress> = new Set();
