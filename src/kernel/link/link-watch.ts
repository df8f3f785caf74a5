/** Reports changes to the node's links, addresses and routes. */
import type { Clock } from "../../base/clock.ts";
import { areMessagesLost, NetlinkError } from "../../netlink/errors.ts";
import { protocols } from "../../netlink/netlink-package.ts";
import { subscribe } from "../../netlink/subscription.ts";
import type { TransportDependencies } from "../../netlink/transport.ts";
import { watchedGroups } from "./constants.ts";

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
   * Stops listening until {@link resume}. The kernel also reports our own writes, and processing tens of thousands of
   * notifications would cost more than the check that follows in any case.
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
      this.#retryAfter(error as Error);
    }
    this.#listener.onChange();
  }

  #retryAfter(error: Error): void {
    this.#listener.onError(error);
    this.#cancelRetry();
    this.#cancelRetry = this.#clock.after(retryMs, () => this.resume());
  }

  close(): void {
    this.#isClosed = true;
    this.pause();
  }

  #listen(): () => void {
    return subscribe(this.#parts, {
      protocol: protocols.route,
      groups: watchedGroups,
      onMessage: () => this.#listener.onChange(),
      onError: (error) => {
        // Lost messages are treated as changes. Other errors of the socket end the subscription.
        if (!(error instanceof NetlinkError)) this.#listener.onError(error);
        else if (!areMessagesLost(error)) this.#retryAfter(error);
        this.#listener.onChange();
      },
    });
  }
}
