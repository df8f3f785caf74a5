/** Notifies of changed links, addresses or routes of the node: many messages are one notification. */
import type { Clock } from "../../base/clock.ts";
import { errno } from "../../base/errno.ts";
import { NetlinkError } from "../../netlink/errors.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import { subscribe } from "../../netlink/subscription.ts";
import type { TransportParts } from "../../netlink/transport.ts";
import { messageTypes, watchedGroups } from "./constants.ts";

/** Changes that come within this time are one. */
const gatherMs = 100;
/** Changes of routes cost a list of all of them. */
const gatherRoutesMs = 1_000;
const routeTypes: ReadonlySet<number> = new Set([messageTypes.newRoute, messageTypes.deleteRoute]);
/** Until listening is retried. */
const retryMs = 1_000;

export interface LinkListener {
  readonly onChange: () => void;
  readonly onError: (error: Error) => void;
}

export class LinkWatch {
  readonly #parts: TransportParts;
  readonly #clock: Clock;
  readonly #listener: LinkListener;
  #stopListening: () => void;
  #cancelNotice: (() => void) | undefined;
  #noticeDueMs = 0;
  #cancelRetry: () => void = () => {};
  #isClosed = false;

  /** Throws NetlinkError. */
  constructor(parts: TransportParts, listener: LinkListener) {
    this.#parts = parts;
    this.#clock = parts.clock;
    this.#listener = listener;
    this.#stopListening = this.#listen();
  }

  /**
   * Hears nothing until {@link resume}: the kernel notifies of each of our own writes too, and tens of thousands of
   * messages cost more than the check that follows anyway.
   */
  pause(): void {
    this.#cancelRetry();
    this.#stopListening();
  }

  /** Listens again, and gives a notice: nobody knows what came meanwhile. Where it cannot, it tries again. */
  resume(): void {
    if (this.#isClosed) return;
    this.pause();
    try {
      this.#stopListening = this.#listen();
    } catch (error) {
      this.#listener.onError(error as Error);
      this.#cancelRetry = this.#clock.after(retryMs, () => this.resume());
    }
    this.#notice();
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelNotice?.();
    this.#cancelRetry();
    this.#stopListening();
  }

  #listen(): () => void {
    return subscribe(this.#parts, {
      protocol: protocols.route,
      groups: watchedGroups,
      onMessage: ({ type }) => this.#notice(routeTypes.has(type) ? gatherRoutesMs : gatherMs),
      onError: (error) => {
        // Lost messages are changes too; anything else is worth telling besides.
        if (!areMessagesLost(error)) this.#listener.onError(error);
        this.#notice();
      },
    });
  }

  /** Routes may change all the time where a routing daemon runs: an address that comes later is not kept waiting. */
  #notice(delayMs: number = gatherMs): void {
    const dueMs = this.#clock.monotonicMs() + delayMs;
    if (this.#cancelNotice !== undefined && dueMs >= this.#noticeDueMs) return;
    this.#cancelNotice?.();
    this.#noticeDueMs = dueMs;
    this.#cancelNotice = this.#clock.after(delayMs, () => {
      this.#cancelNotice = undefined;
      this.#listener.onChange();
    });
  }
}

function areMessagesLost(error: Error): boolean {
  return error instanceof NetlinkError && error.errno === errno.ENOBUFS;
}
