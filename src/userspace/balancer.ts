import { type Cidr, cidrContains, type HostPort, parseIpAddress } from "../base/ip.ts";
import { none } from "../base/none.ts";
import type { Backend } from "./service-listeners.ts";

/**
 * Maximum number of clients that are remembered for session affinity. If there are more, the client that has been idle
 * longest is forgotten.
 */
const mostClients = 100_000;

interface Tie {
  readonly key: HostPort;
  readonly usedAtMs: number;
}

/**
 * Chooses a backend for each connection to one service port: the next one in round-robin order or, with session
 * affinity, the client's previous one. Does not use sockets or a clock; the time is an argument.
 */
export class Balancer {
  #backends: readonly Backend[] = [];
  #affinityMs = 0;
  #clients: readonly Cidr[] = none;
  /** Key of the last chosen backend. */
  #lastKey = "";
  #lastIndex = -1;
  /** Backends by client address. The client that has been idle longest is first. */
  readonly #ties = new Map<string, Tie>();

  /** Number of clients with session affinity to a backend. */
  get tieCount(): number {
    return this.#ties.size;
  }

  /**
   * Replaces the backends. Clients stay with backends that remain, and round robin continues at its position. If
   * `clients` is empty, all clients are served.
   */
  update(
    backends: readonly Backend[],
    affinitySeconds: number,
    clients: readonly Cidr[] = none,
  ): void {
    this.#clients = clients;
    const keys = new Set(backends.map(({ key }) => key));
    this.#backends = backends;
    this.#affinityMs = affinitySeconds * 1_000;
    const index = backends.findIndex(({ key }) => key === this.#lastKey);
    // If the last chosen backend no longer exists, round robin continues after its index, not at it. Otherwise, if the
    // backend at an index changes often, that index would be chosen every time.
    if (index >= 0) this.#lastIndex = index;
    for (const [client, { key }] of this.#ties) {
      if (affinitySeconds === 0 || !keys.has(key)) this.#ties.delete(client);
    }
  }

  /**
   * Returns the backend for a new connection, or undefined if there is none. `isRetry` means that the connection to
   * the client's previous backend failed.
   */
  next(client: string, nowMs: number, isRetry = false): Backend | undefined {
    if (!this.#isAdmitted(client)) return undefined;
    const backend = (isRetry ? undefined : this.#tied(client, nowMs)) ?? this.#advance();
    if (backend !== undefined && this.#affinityMs > 0) this.#tie(client, backend, nowMs);
    return backend;
  }

  /** Forgets clients whose affinity has expired. */
  forgetExpired(nowMs: number): void {
    for (const [client, { usedAtMs }] of this.#ties) {
      if (nowMs - usedAtMs < this.#affinityMs) return;
      this.#ties.delete(client);
    }
  }

  #isAdmitted(client: string): boolean {
    if (this.#clients.length === 0) return true;
    const address = parseIpAddress(client);
    return address !== undefined && this.#clients.some((network) => cidrContains(network, address));
  }

  #tied(client: string, nowMs: number): Backend | undefined {
    const tie = this.#ties.get(client);
    if (tie === undefined || nowMs - tie.usedAtMs >= this.#affinityMs) return undefined;
    return this.#backends.find(({ key }) => key === tie.key);
  }

  #advance(): Backend | undefined {
    if (this.#backends.length === 0) return undefined;
    this.#lastIndex = (this.#lastIndex + 1) % this.#backends.length;
    const backend = this.#backends[this.#lastIndex];
    this.#lastKey = backend?.key ?? "";
    return backend;
  }

  #tie(client: string, { key }: Backend, nowMs: number): void {
    this.#ties.delete(client);
    this.#ties.set(client, { key, usedAtMs: nowMs });
    if (this.#ties.size <= mostClients) return;
    const [oldest] = this.#ties.keys();
    if (oldest !== undefined) this.#ties.delete(oldest);
  }
}
