import { type Cidr, cidrContains, parseIpAddress } from "../base/ip.ts";
import { none } from "../base/none.ts";
import type { Backend } from "./service-listeners.ts";

/** So many clients are remembered for affinity; the one that was quiet for longest makes room. */
const mostClients = 100_000;

interface Tie {
  readonly key: string;
  readonly usedAtMs: number;
}

/**
 * Chooses a backend for each connection of one service port: one after the other, or, with session affinity, the one
 * that the client had last. Knows no sockets; time is an argument. Pure but for what it remembers.
 */
export class Balancer {
  #backends: readonly Backend[] = [];
  #affinityMs = 0;
  #clients: readonly Cidr[] = none;
  /** Key of the backend that was chosen last. */
  #lastKey = "";
  #lastIndex = -1;
  /** By client address; who was quiet for longest stands first. */
  readonly #ties = new Map<string, Tie>();

  /** How many clients are tied to a backend. */
  get tieCount(): number {
    return this.#ties.size;
  }

  /** `clients`: empty, every client is served. Takes other backends; clients of those that stay keep them, and the turn goes on where it was. */
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
    // Where the last one is gone the turn goes on behind its place: a place that changes often must not take all turns.
    if (index >= 0) this.#lastIndex = index;
    for (const [client, { key }] of this.#ties) {
      if (affinitySeconds === 0 || !keys.has(key)) this.#ties.delete(client);
    }
  }

  /** The backend for a new connection; `undefined` when there is none. `isRetry`: the client's last one failed. */
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
