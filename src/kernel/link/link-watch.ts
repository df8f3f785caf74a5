/** Reports changes to the node's links, addresses and routes. */
import type { Clock } from "../../base/clock.ts";
import { areMessagesLost } from "../../netlink/errors.ts";
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
      this.#listener.onError(error as Error);
      this.#cancelRetry = this.#clock.after(retryMs, () => this.resume());
    }
    this.#listener.onChange();
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
        // Lost messages are treated as changes. Other errors are also reported.
        if (!areMessagesLost(error)) this.#listener.onError(error);
        this.#listener.onChange();
      },
    });
  }
}
