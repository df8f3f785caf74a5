import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { Balancer } from "./balancer.ts";
import type { ServiceListener } from "./service-listeners.ts";

/** Where to listen. */
export interface ListenAddress {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** Rules lead processes of this node to the loopback address. */
  readonly isRedirected?: boolean;
}

/** Where a listener is reached. */
export interface LocalPorts {
  readonly port: number;
  /** For processes of this node, by rules; most often the same. */
  readonly portOnLoopback: number;
}

/** A service port that is served. */
export interface OpenListener {
  readonly wanted: ServiceListener;
  /** Of the listener's sockets. */
  readonly localPorts: LocalPorts;
}

export interface ListenerParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly balancer: Pick<Balancer, "next">;
  /** A UDP client that is quiet for so long may get another backend. */
  readonly udpTimeoutMs: number;
  readonly connections: ConnectionQuota;
}

/** How many connections and UDP clients the listener's Service may have. */
export interface ConnectionQuota {
  /** Whether there may be one more; it is counted then. */
  take(): boolean;
  release(): void;
}

/** Sockets that stand for one service port. */
export interface Listener {
  /** Where it listens from now on. Rejects when it cannot. */
  open(): Promise<LocalPorts>;
  /** Takes no new connections; those that are open go on. */
  close(): Promise<void>;
  /** UDP clients of other backends than these, by their keys, get another one; TCP connections end by themselves. */
  keepTo(serving: ReadonlySet<string>): void;
  /** Cuts what is still open. */
  cut(): void;
  /** Connections, or UDP clients that were not quiet for long. */
  readonly openCount: number;
}
