import type { EndpointSliceRecord, ServiceName, ServiceRecord } from "../api/objects.ts";
import {
  type AdmittedService,
  admit,
  type Demand,
  demandOf,
  isWithin,
  type Limits,
  lesser,
} from "./limits.ts";
import { bySeniority } from "./service-port.ts";

/** The limit that a Service exceeds. */
export type LimitKind = "service-limit" | "namespace-limit";

/** A Service that is only partly served. */
export interface LimitedService extends AdmittedService {
  readonly limit: LimitKind;
  readonly demand: Demand;
  readonly share: Demand;
}

/** Returns the latest objects of a Service. Undefined if it was deleted. */
export type ReadObjects = (
  name: ServiceName,
) =>
  | { readonly service: ServiceRecord; readonly slices: readonly EndpointSliceRecord[] }
  | undefined;

interface Namespace {
  readonly demands: Map<ServiceName, Demand>;
  total: Demand;
  /** Whether some Services get less than the limit per Service allows. */
  isFull: boolean;
}

/**
 * Divides a node's capacity among Services. A Service may use the full limit per Service as long as its namespace stays
 * within the namespace limit. Otherwise, older Services in the namespace take precedence. A Service's share depends
 * only on the objects of its namespace, so it is the same on every node, after every restart, and regardless of other
 * namespaces.
 */
export class Shares {
  readonly #limits: Limits;
  readonly #read: ReadObjects;
  readonly #namespaces = new Map<string, Namespace>();
  /** Services that exceed a limit. Nearly always empty. */
  readonly #limited = new Map<ServiceName, LimitedService>();

  constructor(limits: Limits, read: ReadObjects) {
    this.#limits = limits;
    this.#read = read;
  }

  /** The served part of a Service that exceeds a limit. Undefined if the whole Service is served. */
  of(name: ServiceName): LimitedService | undefined {
    return this.#limited.get(name);
  }

  limited(): Iterable<LimitedService> {
    return this.#limited.values();
  }

  /**
   * Recomputes these Services' shares after their objects changed. Returns all Services whose shares changed as a
   * result.
   */
  update(names: Iterable<ServiceName>): ReadonlySet<ServiceName> {
    const full = new Set<string>();
    const others = new Set<ServiceName>();
    for (const name of names) {
      const key = name.slice(0, name.indexOf("/"));
      const namespace = this.#note(key, name);
      const isFull = !isWithin(namespace.total, this.#limits.namespace);
      if (isFull || namespace.isFull) full.add(key);
      else this.#limit(name, namespace.demands.get(name), undefined);
    }
    for (const key of full) for (const name of this.#divide(key)) others.add(name);
    return others;
  }

  #note(key: string, name: ServiceName): Namespace {
    const namespace = this.#namespaces.get(key) ?? {
      demands: new Map<ServiceName, Demand>(),
      total: { frontends: 0, endpoints: 0 },
      isFull: false,
    };
    this.#namespaces.set(key, namespace);
    const before = namespace.demands.get(name);
    const objects = this.#read(name);
    const after = objects && demandOf(objects.service, objects.slices);
    if (after === undefined) {
      namespace.demands.delete(name);
      this.#limited.delete(name);
    } else namespace.demands.set(name, after);
    namespace.total = {
      frontends: namespace.total.frontends + this.#capped(after, before, "frontends"),
      endpoints: namespace.total.endpoints + this.#capped(after, before, "endpoints"),
    };
    if (namespace.demands.size === 0) this.#namespaces.delete(key);
    return namespace;
  }

  /** Returns how much more of its namespace's limit a Service uses than before. */
  #capped(after: Demand | undefined, before: Demand | undefined, amount: keyof Demand): number {
    const most = this.#limits.service[amount];
    return Math.min(after?.[amount] ?? 0, most) - Math.min(before?.[amount] ?? 0, most);
  }

  /** Gives each Service in a namespace its share, oldest first. Returns the Services whose share changed. */
  #divide(key: string): readonly ServiceName[] {
    const namespace = this.#namespaces.get(key);
    if (namespace === undefined) return [];
    namespace.isFull = !isWithin(namespace.total, this.#limits.namespace);
    let left = this.#limits.namespace;
    const changed: ServiceName[] = [];
    for (const name of this.#bySeniority(namespace.demands.keys())) {
      const demand = namespace.demands.get(name);
      if (demand === undefined) continue;
      const taken = lesser(lesser(demand, this.#limits.service), left);
      if (this.#limit(name, demand, namespace.isFull ? left : undefined)) changed.push(name);
      left = {
        frontends: left.frontends - taken.frontends,
        endpoints: left.endpoints - taken.endpoints,
      };
    }
    return changed;
  }

  #bySeniority(names: Iterable<ServiceName>): readonly ServiceName[] {
    const services = [...names].flatMap((name) => this.#read(name)?.service ?? []);
    return services.sort(bySeniority).map(({ name }) => name);
  }

  /**
   * Returns whether the share changed. `left` is what remains of the namespace limit. Undefined if the namespace stays
   * within its limit.
   */
  #limit(name: ServiceName, demand: Demand | undefined, left: Demand | undefined): boolean {
    const before = this.#limited.get(name);
    const share = left === undefined ? this.#limits.service : lesser(this.#limits.service, left);
    const objects = demand === undefined || isWithin(demand, share) ? undefined : this.#read(name);
    if (demand === undefined || objects === undefined) {
      this.#limited.delete(name);
      return before !== undefined;
    }
    const limit = isWithin(demand, this.#limits.service) ? "namespace-limit" : "service-limit";
    this.#limited.set(name, { ...admit(objects, share), limit, demand, share });
    return (
      before?.share.frontends !== share.frontends || before.share.endpoints !== share.endpoints
    );
  }
}
