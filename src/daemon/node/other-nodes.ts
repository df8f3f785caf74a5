import { isDeepStrictEqual } from "node:util";
import { BackOff } from "../../api/cluster/back-off.ts";
import type { NodeRecord, ServiceRecord } from "../../api/objects.ts";
import type { Nodes, ObjectSource } from "../../api/source.ts";
import { background } from "../../base/background.ts";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { IpAddress } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { Networks } from "../../base/networks.ts";
import { none } from "../../base/none.ts";
import { asksNodeWeights } from "../../model/annotations.ts";

export interface OtherNodesParts {
  readonly source: Pick<ObjectSource, "listNodes">;
  readonly clock: Clock;
  readonly log: Logger;
  /** This node's; its addresses are known from its links. */
  readonly nodeName: string;
  /** Shortest pause between two readings; 0: never read, nothing is reserved. */
  readonly periodMs: number;
  /** Numbers from 0 up to 1. */
  readonly random: () => number;
  /** {@link OtherNodes.reserved}, `podNetworks`, `weights` or `isReady` differs. */
  readonly onChange: () => void;
  /** Fewer addresses are {@link OtherNodes.unchecked}; absent: nobody waits for it. */
  readonly onChecked?: () => void;
  /** Addresses that an earlier run served: they were checked before a restart. Undefined if there are none. */
  readonly readServed?: () => Promise<Iterable<IpAddress>>;
  /** Weights are wanted whatever Services say; absent: no. */
  readonly areWeightsDefault?: () => boolean;
}

/** A reading of one Node is 10 KB: so much per second and node is the most that all of them cost the API servers. */
const pausePerNodeMs = 1_000;
/** The first sync waits so long for the first reading. */
const longestWaitMs = 5_000;
/**
 * A Service that names a new address is followed by a reading within this time, by chance, since all nodes hear of it at once. In
 * large clusters it is {@link claimPausePerNodeMs} for each Node. New claims cause no readings at a shorter distance.
 */
const readingWithinMs = 1_000;
const claimPausePerNodeMs = 100;
/** Of each Node, those that it had before counted; a Node has one or two of each family. */
const maxAddressesPerNode = 16;

/**
 * Anybody who may write a Service may write any external IP into it. So a new external IP waits, neither bound nor served, for a list of
 * Nodes that was requested after the claim. Load-balancer IPs do not wait: a controller writes them.
 *
 * It knows the addresses of other Nodes, as far as Services name them as external or load-balancer IPs, the pod CIDRs of all Nodes, and the
 * weights of Nodes if a Service asks for them. Nodes are read only while a Service needs one of these, at a pace that depends on their
 * number. An address stays reserved as long as its Node exists, whatever its status says meanwhile.
 */
export class OtherNodes {
  readonly #parts: OtherNodesParts;
  /** Addresses that Services name, with how many do. */
  readonly #claims = new Map<IpAddress, number>();
  /** External IPs that a Service names and that no list of Nodes was compared with since. */
  readonly #unchecked = new Set<IpAddress>();
  /** The Node that has it. */
  #owners: ReadonlyMap<IpAddress, string> = new Map();
  #reserved: ReadonlySet<IpAddress> = new Set();
  /** As listed last. */
  #nodes: Nodes = new Map();
  #own: NodeRecord | undefined;
  #podNetworks = new Networks();
  /** How many Services ask for weights of Nodes. */
  #weightRequests = 0;
  #weights: ReadonlyMap<string, number> = new Map();
  readonly #abort = new AbortController();
  #isReady: boolean;
  #isReading = false;
  #hasFailed = false;
  readonly #backOff: BackOff;
  #nodeCount = 0;
  #lastReadMs = Number.NEGATIVE_INFINITY;
  /** The reading that is planned. */
  #next: { readonly atMs: number; readonly cancel: () => void } | undefined;
  #cancelWait: () => void = () => {};

  constructor(parts: OtherNodesParts) {
    this.#parts = parts;
    this.#isReady = !this.#canRead;
    this.#backOff = new BackOff(parts.clock, parts.random);
  }

  /** Planning may begin: other Nodes are known, or nobody asks for them, or they could not be read in time. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** Addresses of other Nodes that a Service names. The same object while nothing in it differs. */
  get reserved(): ReadonlySet<IpAddress> {
    return this.#reserved;
  }

  /** The pod CIDRs of all Nodes. The same object while nothing in it differs. */
  get podNetworks(): Networks {
    return this.#podNetworks;
  }

  /** External IPs that may be another Node's or a pod's: they wait for the next list of Nodes. */
  get unchecked(): ReadonlySet<IpAddress> {
    return this.#unchecked;
  }

  /** The last list of Nodes failed. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** Of Nodes that have one. The same object while nothing in it differs. */
  get weights(): ReadonlyMap<string, number> {
    return this.#weights;
  }

  noteService(previous: ServiceRecord | undefined, current: ServiceRecord | undefined): void {
    if (current !== undefined && asksNodeWeights(current)) this.#weightRequests += 1;
    if (previous !== undefined && asksNodeWeights(previous)) this.#weightRequests -= 1;
    const wasClaimed = (current?.externalIps ?? []).filter((address) => this.#claims.has(address));
    for (const address of namedBy(current)) {
      this.#claims.set(address, (this.#claims.get(address) ?? 0) + 1);
    }
    for (const address of namedBy(previous)) {
      const rest = (this.#claims.get(address) ?? 1) - 1;
      if (rest > 0) this.#claims.set(address, rest);
      else {
        this.#claims.delete(address);
        this.#unchecked.delete(address);
      }
    }
    const isNew = (address: IpAddress): boolean => !wasClaimed.includes(address);
    this.#check((current?.externalIps ?? []).filter(isNew));
    this.#update([...namedBy(previous), ...namedBy(current)]);
    this.noteNeeds();
  }

  /** These wait for the next list of Nodes. */
  #check(addresses: readonly IpAddress[]): void {
    if (!this.#canRead) return;
    const unknown = addresses.filter((address) => !this.#owners.has(address));
    for (const address of unknown) this.#unchecked.add(address);
  }

  /** More may be needed than before: Services changed, or what counts for all of them. */
  noteNeeds(): void {
    if (this.#isReady) this.#planReading(this.#delayAfterClaimMs());
  }

  #delayAfterClaimMs(): number {
    const { clock, random } = this.#parts;
    const windowMs = Math.max(readingWithinMs, this.#nodeCount * claimPausePerNodeMs);
    const sinceLastMs = clock.monotonicMs() - this.#lastReadMs;
    return Math.max(random() * windowMs, windowMs - sinceLastMs);
  }

  /** Services are completely listed. */
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

  /** This node's own object, which is newer than the one in the list. */
  noteOwn(own: NodeRecord): void {
    this.#own = own;
    this.#noteObjects();
  }

  /** All Nodes, as the source reports them. None at all is no cluster's state. */
  noteNodes(nodes: Nodes): void {
    if (nodes.size === 0 || this.#parts.periodMs === 0) return;
    this.#nodes = nodes;
    this.#noteObjects();
    const owners = new Map<IpAddress, string>();
    for (const [name, { addresses }] of nodes) {
      if (name === this.#parts.nodeName) continue;
      for (const address of addresses.slice(0, maxAddressesPerNode)) owners.set(address, name);
    }
    // Of a Node that is there, and says less of itself than before.
    const counts = new Map<string, number>();
    for (const [address, name] of this.#owners) {
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      if (nodes.has(name) && !owners.has(address) && count <= maxAddressesPerNode) {
        owners.set(address, name);
      }
    }
    this.#owners = owners;
    this.#update([...this.#claims.keys(), ...this.#reserved]);
  }

  stop(): void {
    this.#abort.abort();
    this.#next?.cancel();
    this.#cancelWait();
  }

  get #isNeeded(): boolean {
    const areWeightsDefault = this.#parts.areWeightsDefault?.() ?? false;
    return this.#claims.size > 0 || this.#weightRequests > 0 || areWeightsDefault;
  }

  get #canRead(): boolean {
    return this.#parts.source.listNodes !== undefined && this.#parts.periodMs > 0;
  }

  /** Unless one is planned for an earlier time, or nobody needs it. */
  #planReading(delayMs: number): void {
    const isNeeded = this.#canRead && this.#isNeeded && !this.#abort.signal.aborted;
    if (!isNeeded || this.#isReading) return;
    const { clock, log } = this.#parts;
    const atMs = clock.monotonicMs() + delayMs;
    if (this.#next !== undefined && (this.#next.atMs <= atMs || this.#unchecked.size === 0)) return;
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
    const checked = [...this.#unchecked];
    const nodes = await this.#list(signal);
    this.#isReading = false;
    this.#lastReadMs = clock.monotonicMs();
    if (signal.aborted) return;
    if (nodes === undefined) {
      this.#planReading(this.#backOff.nextDelayMs());
      return;
    }
    this.#nodeCount = nodes.size;
    this.noteNodes(nodes);
    this.#noteChecked(checked);
    this.#becomeReady();
    const pauseMs = Math.max(periodMs, nodes.size * pausePerNodeMs);
    this.#planReading(pauseMs * (1 + random() / 10));
    if (this.#unchecked.size > 0) this.noteNeeds();
  }

  #noteChecked(addresses: Iterable<IpAddress>): void {
    const before = this.#unchecked.size;
    for (const address of addresses) this.#unchecked.delete(address);
    if (this.#unchecked.size < before) this.#parts.onChecked?.();
  }

  async #list(signal: AbortSignal): Promise<Nodes | undefined> {
    try {
      const nodes = await this.#parts.source.listNodes?.(signal);
      this.#hasFailed = false;
      return nodes;
    } catch (error) {
      if (signal.aborted) return undefined;
      // Those that were read before stay reserved.
      const effect = "New external IPs are not served, since they may be addresses of Nodes";
      const advice = "Grant list on nodes, or set kubeIpvs.nodeAddressPeriod: 0s";
      const keys = { err: errorText(error), effect, advice };
      if (!this.#hasFailed) {
        this.#hasFailed = true;
        this.#parts.log.warn("Cannot list the addresses of other Nodes", keys);
        this.#parts.onChange();
      }
      return undefined;
    }
  }

  /** Without a list: what is served stays so. */
  async #stopWaiting(): Promise<void> {
    try {
      this.#noteChecked((await this.#parts.readServed?.()) ?? []);
    } finally {
      this.#becomeReady();
    }
  }

  #becomeReady(): void {
    this.#cancelWait();
    if (this.#isReady) return;
    this.#isReady = true;
    this.#parts.onChange();
  }

  /** Weights and pod CIDRs of all Nodes. */
  #noteObjects(): void {
    const own = this.#own;
    const all = new Map(own === undefined ? this.#nodes : [...this.#nodes, [own.name, own]]);
    const weights = new Map<string, number>();
    for (const [name, { weight }] of all) if (weight !== undefined) weights.set(name, weight);
    const isReserving = this.#parts.periodMs > 0;
    const cidrs = isReserving ? [...all.values()].flatMap(({ podCidrs }) => podCidrs) : none;
    const podNetworks = new Networks(cidrs);
    const areWeightsEqual = isDeepStrictEqual(weights, this.#weights);
    const areNetworksEqual = podNetworks.text === this.#podNetworks.text;
    if (!areWeightsEqual) this.#weights = weights;
    if (!areNetworksEqual) this.#podNetworks = podNetworks;
    if (!areWeightsEqual || !areNetworksEqual) this.#parts.onChange();
  }

  #update(addresses: readonly IpAddress[]): void {
    const isReserved = (one: IpAddress): boolean => this.#claims.has(one) && this.#owners.has(one);
    const changed = addresses.filter((one) => isReserved(one) !== this.#reserved.has(one));
    if (changed.length === 0) return;
    const rest = [...this.#reserved].filter((one) => !changed.includes(one));
    this.#reserved = new Set([...rest, ...changed.filter(isReserved)]);
    this.#parts.onChange();
  }
}

/** Each once. */
function namedBy(service: ServiceRecord | undefined): ReadonlySet<IpAddress> {
  if (service === undefined) return noAddresses;
  if (service.externalIps.length + service.loadBalancerIps.length === 0) return noAddresses;
  return new Set([...service.externalIps, ...service.loadBalancerIps]);
}

const noAddresses: ReadonlySet<IpAddress> = new Set();
