/** How much of something all Services together may have, and one Service alone. */
export interface Quota {
  readonly total: number;
  readonly perService: number;
}

/** Counts what Services have, and refuses more than their quota. */
export class ServiceQuota {
  readonly #quota: Quota;
  readonly #taken = new Map<string, number>();
  #total = 0;

  constructor(quota: Quota) {
    this.#quota = quota;
  }

  /** Whether the Service may have so many more; they are counted then. */
  take(service: string, count = 1): boolean {
    const taken = (this.#taken.get(service) ?? 0) + count;
    const { total, perService } = this.#quota;
    if (taken > perService || this.#total + count > total) return false;
    this.#taken.set(service, taken);
    this.#total += count;
    return true;
  }

  release(service: string, count = 1): void {
    const left = (this.#taken.get(service) ?? 0) - count;
    this.#total -= count;
    if (left > 0) this.#taken.set(service, left);
    else this.#taken.delete(service);
  }
}

/** What the proxier may open. */
export interface SocketQuotas {
  /** TCP connections and UDP clients. */
  readonly connections: Quota;
  readonly listenerSockets: Quota;
}

/** Files that the rest of the process needs: the API server, HTTP servers, iptables. */
const reservedFiles = 512;
/** A TCP connection has one socket to the client and one to the endpoint. */
const socketsPerConnection = 2;
/** A Service that has all it may leaves at least three quarters to others. */
const shareOfService = 4;

/**
 * One half of the files that the process may open is for listeners, the other for connections, after the reserve. The
 * configured limits apply if they are lower. Pure.
 */
export function socketQuotas(openFiles: number, connections: Quota): SocketQuotas {
  const usable = openFiles - Math.min(reservedFiles, openFiles / 2);
  const listenerSockets = Math.floor(usable / 2);
  const possible = Math.floor(usable / 2 / socketsPerConnection);
  const total = Math.min(connections.total, possible);
  const share = (of: number): number => Math.ceil(of / shareOfService);
  return {
    connections: { total, perService: Math.min(connections.perService, share(total)) },
    listenerSockets: { total: listenerSockets, perService: share(listenerSockets) },
  };
}
