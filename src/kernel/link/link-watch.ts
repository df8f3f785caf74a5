/** Reports changes to the node's links, addresses and routes. Combines many messages into one notification. */
import type { Clock } from "../../base/clock.ts";
import { areMessagesLost } from "../../netlink/errors.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import { subscribe } from "../../netlink/subscription.ts";
import type { TransportDependencies } from "../../netlink/transport.ts";
import { messageTypes, watchedGroups } from "./constants.ts";

/** Changes within this time cause a single notification. */
const gatherMs = 100;
/** Route changes are batched longer, because each notification triggers a listing of all routes. */
const gatherRoutesMs = 1_000;
const routeTypes: ReadonlySet<number> = new Set([messageTypes.newRoute, messageTypes.deleteRoute]);
/** Delay before a failed subscription is retried. */
const retryMs = 1_000;

export interface LinkListener {
  readonly onChange: () => void;
  readonly onError: (error: Error) => void;
}

export class LinkWatch {
  readonly #parts: TransportDependencies;
  readonly #clock: Clock;
  readonly #listener: LinkListener;
  #stopListening: () => void;
  #cancelNotice: (() => void) | undefined;
  #noticeDueMs = 0;
  #cancelRetry: () => void = () => {};
  #isClosed = false;

  /** Throws NetlinkError. */
  constructor(parts: TransportDependencies, listener: LinkListener) {
    this.#parts = parts;
    this.#clock = parts.clock;
    this.#listener = listener;
    this.#stopListening = this.#listen();
  }

  /**
   * Stops listening until {@link resume}. The kernel also reports our own writes. Processing tens of thousands of
   * messages costs more than the check that follows anyway.
   */
  pause(): void {
    this.#cancelRetry();
    this.#stopListening();
  }

  /** Listens again and sends a notification, because changes may have been missed. Retries if subscribing fails. */
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
        // Lost messages are treated as changes. Other errors are also reported.
        if (!areMessagesLost(error)) this.#listener.onError(error);
        this.#notice();
      },
    });
  }

  /**
   * Even if a routing daemon changes routes continuously, an address change is reported after its own, shorter delay.
   */
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
