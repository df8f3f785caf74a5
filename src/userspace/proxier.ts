import type { Clock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import { Exclusive } from "../base/exclusive.ts";
import type { Logger } from "../base/log.ts";
import { none } from "../base/none.ts";
import { toServiceName } from "../base/service-name.ts";
import { Balancer } from "./balancer.ts";
import type {
  ConnectionQuota,
  ListenAddress,
  Listener,
  ListenerContext,
  LocalPorts,
  OpenListener,
} from "./listener.ts";
import { RefusedConnections, type RefusedConnectionsContext } from "./refused-connections.ts";
import type { ServiceListener } from "./service-listeners.ts";
import { ServiceQuota, type SocketQuotas } from "./service-quota.ts";
import { TcpListener } from "./tcp-listener.ts";
import { UdpListener } from "./udp-listener.ts";

export interface ProxierContext extends Pick<RefusedConnectionsContext, "onRefused"> {
  readonly clock: Clock;
  readonly log: Logger;
  readonly udpTimeoutMs: number;
  /** The address to listen on for a service port. Undefined if its family is not served. */
  readonly addressOf: (wanted: ServiceListener) => ListenAddress | undefined;
  /** How long connections may continue after their listener is closed. 0 means that there is no limit. */
  readonly drainMs: number;
  readonly quotas: SocketQuotas;
}

interface Served {
  wanted: ServiceListener;
  readonly balancer: Balancer;
  readonly listener: Listener;
  readonly localPorts: LocalPorts;
  /** Whether rules keep clients from the listener's own port; see {@link UserspaceProxier.noteGuarded}. */
  isGuarded: boolean;
}

/** How often expired session affinities are removed, and listeners that could not be opened are retried. */
const sweepMs = 60_000;

/**
 * Maintains a listener for each service port. A change of endpoints updates only the listener's balancer. When a
 * service port is removed, its listener closes, but its connections continue until their deadline.
 */
export class UserspaceProxier {
  readonly #parts: ProxierContext;
  readonly #served = new Map<string, Served>();
  /** Listeners that could not be opened, for the next retry. */
  readonly #failed = new Map<string, ServiceListener>();
  readonly #keysOfService = new Map<string, ReadonlySet<string>>();
  /** Closed listeners with open connections, each with a function that cancels the deadline. */
  readonly #draining = new Map<Listener, () => void>();
  readonly #exclusive = new Exclusive();
  readonly #connections: ServiceQuota;
  readonly #listenerSockets: ServiceQuota;
  readonly #refused: RefusedConnections;
  #cancelSweep: () => void = () => {};

  constructor(parts: ProxierContext) {
    this.#parts = parts;
    this.#connections = new ServiceQuota(parts.quotas.connections);
    this.#listenerSockets = new ServiceQuota(parts.quotas.listenerSockets);
    this.#refused = new RefusedConnections(parts);
    this.#sweepLater();
  }

  /** The open listeners, in no particular order. */
  open(): readonly OpenListener[] {
    return [...this.#served.values()].map(({ wanted, localPorts }) => ({ wanted, localPorts }));
  }

  isOpen(key: string): boolean {
    return this.#served.has(key);
  }

  /**
   * Call this when the kernel has accepted the rules that keep clients from the own ports of these listeners. Until
   * then, listeners with source ranges to which rules redirect serve no clients, because only the rules check the source
   * ranges.
   */
  noteGuarded(listeners: readonly OpenListener[]): void {
    for (const { wanted, localPorts } of listeners) {
      const served = this.#served.get(wanted.key);
      if (served?.localPorts !== localPorts || served.isGuarded) continue;
      served.isGuarded = true;
      this.#updateBalancer(served);
    }
  }

  /** Number of connections and UDP clients, including those of closed listeners. */
  get openCount(): number {
    const listeners = [...this.#served.values()].map(({ listener }) => listener);
    return [...listeners, ...this.#draining.keys()].reduce(
      (sum, { openCount }) => sum + openCount,
      0,
    );
  }

  /**
   * Replaces the listeners of these Services. An empty array removes a Service. Closes old listeners before opening
   * new ones, which may need the same ports. Never rejects: listeners that cannot be opened are logged.
   */
  replaceServices(services: ReadonlyMap<string, readonly ServiceListener[]>): Promise<void> {
    return this.#exclusive.run(async () => {
      const waiting = [...this.#failed.values()];
      let hasEnded = false;
      for (const [service, wanted] of services) {
        if (await this.#endOthers(service, wanted)) hasEnded = true;
      }
      for (const wanted of services.values()) {
        for (const each of wanted) await this.#serve(each);
      }
      if (hasEnded) await this.#retry(waiting);
    });
  }

  retryFailed(): Promise<void> {
    return this.#exclusive.run(() => this.#retry([...this.#failed.values()]));
  }

  /** Closes all listeners and connections. */
  async stop(): Promise<void> {
    this.#cancelSweep();
    await this.#exclusive.run(async () => {
      for (const { listener } of this.#served.values()) {
        await listener.close();
        listener.cut();
      }
      for (const [listener, cancel] of this.#draining) {
        cancel();
        listener.cut();
      }
      this.#draining.clear();
      this.#served.clear();
      this.#failed.clear();
    });
  }

  /**
   * Closes the Service's listeners that are no longer wanted or whose address has changed. Resolves with whether one
   * was closed.
   */
  async #endOthers(service: string, wanted: readonly ServiceListener[]): Promise<boolean> {
    const byKey = new Map(wanted.map((each) => [each.key, each]));
    let hasEnded = false;
    for (const key of this.#keysOfService.get(service) ?? []) {
      const [served, other] = [this.#served.get(key)?.wanted, byKey.get(key)];
      if (other === undefined) this.#failed.delete(key);
      if (served === undefined) continue;
      if (other !== undefined && this.#isSameAddress(served, other)) continue;
      await this.#end(key);
      hasEnded = true;
    }
    if (byKey.size === 0) this.#keysOfService.delete(service);
    else this.#keysOfService.set(service, new Set(byKey.keys()));
    return hasEnded;
  }

  async #serve(wanted: ServiceListener): Promise<void> {
    const served = this.#served.get(wanted.key);
    if (served === undefined) return this.#begin(wanted, this.#failed.has(wanted.key));
    served.wanted = wanted;
    this.#updateBalancer(served);
    served.listener.keepTo(wanted.serving);
  }

  /** Retries the `failed` listeners that have not changed since. */
  async #retry(failed: readonly ServiceListener[]): Promise<void> {
    for (const wanted of failed) {
      if (this.#failed.get(wanted.key) === wanted) await this.#begin(wanted, true);
    }
  }

  #isSameAddress(one: ServiceListener, other: ServiceListener): boolean {
    const { host, port } = this.#parts.addressOf(one) ?? {};
    const wanted = this.#parts.addressOf(other);
    return wanted?.host === host && wanted?.port === port;
  }

  async #begin(wanted: ServiceListener, isRetry: boolean): Promise<void> {
    const { clock, log, udpTimeoutMs, addressOf } = this.#parts;
    const address = addressOf(wanted);
    if (address === undefined) return;
    const balancer = new Balancer();
    this.#updateBalancer({ wanted, balancer, isGuarded: false });
    const keys = { service: wanted.portName, protocol: wanted.protocol };
    const connections = this.#connectionsOf(wanted.service);
    const parts: ListenerContext = {
      ...{ clock, log: log.with(keys), balancer, connections, udpTimeoutMs },
    };
    const Kind = wanted.protocol === "TCP" ? TcpListener : UdpListener;
    const listener = new Kind(parts, address);
    try {
      const localPorts = await this.#open(listener, wanted, address);
      this.#served.set(wanted.key, { wanted, balancer, listener, localPorts, isGuarded: false });
      this.#failed.delete(wanted.key);
      log.verbose(1, "Listening for Service", {
        ...{ ...keys, host: address.host },
        port: localPorts.port,
      });
    } catch (error) {
      this.#failed.set(wanted.key, wanted);
      const event = "Cannot listen for Service, retrying";
      const shown = { ...keys, host: address.host, port: address.port, err: errorText(error) };
      if (isRetry) log.verbose(2, event, shown);
      else log.error(event, shown);
    }
  }

  /**
   * If there are rules, they check the source ranges. Otherwise, the balancer must check them, because the listener
   * also serves the load-balancer IPs.
   */
  #updateBalancer({
    wanted,
    balancer,
    isGuarded,
  }: Pick<Served, "wanted" | "balancer" | "isGuarded">): void {
    const { backends, affinitySeconds, nodePort, isNodePortRestricted, servicePort } = wanted;
    const { sourceRanges } = servicePort;
    const isRedirected = this.#parts.addressOf(wanted)?.isRedirected === true;
    const isRestricted = !isRedirected && (nodePort === 0 || isNodePortRestricted);
    const isClosed = isRedirected && !isGuarded && sourceRanges.length > 0;
    balancer.update(
      isClosed ? none : backends,
      affinitySeconds,
      isRestricted ? sourceRanges : none,
    );
  }

  /** Opens the listener. Rejects if this fails or the listener socket quota is exhausted. */
  async #open(
    listener: Listener,
    { service, protocol }: ServiceListener,
    address: ListenAddress,
  ): Promise<LocalPorts> {
    const count = socketCount(protocol);
    if (!this.#listenerSockets.take(service, count)) {
      const { total, perService } = this.#parts.quotas.listenerSockets;
      throw new Error(
        `Cannot open a socket at ${address.host}: the limit of ${perService} listener sockets per Service, ` +
          `or ${total} in total, is reached; raise the open-file limit`,
      );
    }
    try {
      return await listener.open();
    } catch (error) {
      this.#listenerSockets.release(service, count);
      throw error;
    }
  }

  #connectionsOf(service: string): ConnectionQuota {
    return {
      take: () => {
        const isTaken = this.#connections.take(service);
        if (!isTaken) this.#refused.note(toServiceName(service));
        return isTaken;
      },
      release: () => this.#connections.release(service),
    };
  }

  async #end(key: string): Promise<void> {
    const served = this.#served.get(key);
    if (served === undefined) return;
    this.#served.delete(key);
    await served.listener.close();
    this.#listenerSockets.release(served.wanted.service, socketCount(served.wanted.protocol));
    this.#drain(served.listener);
  }

  #drain(listener: Listener): void {
    if (listener.openCount === 0) return;
    const { clock, drainMs } = this.#parts;
    const end = (): void => {
      listener.cut();
      this.#draining.delete(listener);
    };
    this.#draining.set(listener, drainMs > 0 ? clock.after(drainMs, end) : () => {});
  }

  #sweepLater(): void {
    const { clock } = this.#parts;
    this.#cancelSweep = clock.after(sweepMs, () => {
      this.#refused.sweep();
      void this.retryFailed();
      for (const { balancer } of this.#served.values()) balancer.forgetExpired(clock.monotonicMs());
      for (const [listener, cancel] of this.#draining) {
        if (listener.openCount > 0) continue;
        cancel();
        this.#draining.delete(listener);
      }
      this.#sweepLater();
    });
  }
}

/** Maximum number of sockets of a listener. A UDP listener to which rules redirect has a second one on loopback. */
function socketCount(protocol: ServiceListener["protocol"]): number {
  return protocol === "UDP" ? 2 : 1;
}
