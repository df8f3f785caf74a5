import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { Balancer } from "./balancer.ts";

/** Where to listen. */
export interface ListenAddress {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

export interface ListenerParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly balancer: Pick<Balancer, "next">;
  /** A UDP client that is quiet for so long may get another backend. */
  readonly udpTimeoutMs: number;
}

/** Sockets that stand for one service port. */
export interface Listener {
  /** The port that it listens on. Rejects when it cannot. */
  open(): Promise<number>;
  /** Takes no new connections; those that are open go on. */
  close(): Promise<void>;
  /** Cuts what is still open. */
  cut(): void;
  /** Connections, or UDP clients that were not quiet for long. */
  readonly openCount: number;
}
