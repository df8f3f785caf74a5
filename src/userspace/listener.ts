import type { Clock } from "../base/clock.ts";
import type { HostPort } from "../base/ip.ts";
import type { Logger } from "../base/log.ts";
import type { Balancer } from "./balancer.ts";
import type { ServiceListener } from "./service-listeners.ts";

export interface ListenAddress {
  readonly host: string;
  /** 0 means any free port. */
  readonly port: number;
  /**
   * Whether rules redirect packets to the listener. Packets from local processes are redirected to the loopback
   * address.
   */
  readonly isRedirected?: boolean;
}

/** The ports on which a listener accepts connections. */
export interface LocalPorts {
  readonly port: number;
  /** The port to which rules redirect local processes. Usually the same as `port`. */
  readonly portOnLoopback: number;
}

/** A service port with an open listener. */
export interface OpenListener {
  readonly wanted: ServiceListener;
  /** The ports of the listener's sockets. */
  readonly localPorts: LocalPorts;
}

export interface ListenerContext {
  readonly clock: Clock;
  readonly log: Logger;
  readonly balancer: Pick<Balancer, "next">;
  /** How long a UDP client must be idle before it may be sent to a different backend. */
  readonly udpTimeoutMs: number;
  readonly connections: ConnectionQuota;
}

/** The quota of connections and UDP clients for the listener's Service. */
export interface ConnectionQuota {
  /** Returns whether one more connection or UDP client is allowed and, if so, counts it. */
  take(): boolean;
  release(): void;
}

/** The sockets of one service port. */
export interface Listener {
  /** Starts to listen. Rejects if this fails. */
  open(): Promise<LocalPorts>;
  /** Stops accepting connections. Open TCP connections continue. */
  close(): Promise<void>;
  /**
   * Moves UDP clients whose backend is not in `serving` (backend keys) to a different backend. Does not affect TCP
   * connections.
   */
  keepTo(serving: ReadonlySet<HostPort>): void;
  /** Closes all open connections. */
  cut(): void;
  /** Number of TCP connections, or of UDP clients that are not idle. */
  readonly openCount: number;
}
