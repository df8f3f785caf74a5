/** Limits in total and per Service. */
export interface Quota {
  readonly total: number;
  readonly perService: number;
}

/** Counts how much of a resource each Service uses, and denies requests that exceed the quota. */
export class ServiceQuota {
  readonly #quota: Quota;
  readonly #taken = new Map<string, number>();
  #total = 0;

  constructor(quota: Quota) {
    this.#quota = quota;
  }

  /** Returns whether the Service may use `count` more and, if so, counts them. */
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

/** The quotas of the proxier. */
export interface SocketQuotas {
  /** TCP connections and UDP clients. */
  readonly connections: Quota;
  readonly listenerSockets: Quota;
}

/** Number of open files that the rest of the process needs: API server, HTTP servers, iptables. */
const reservedFiles = 512;
/** A TCP connection has one socket to the client and one to the endpoint. */
const socketsPerConnection = 2;
/** A single Service may use at most one quarter of the total. */
const shareOfService = 4;

/**
 * The quotas. Half of the open files beyond the reserve are for listeners, and half are for connections. The configured
 * limits apply if they are lower. Pure.
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
