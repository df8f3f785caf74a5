import { background } from "../base/background.ts";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { Kernel } from "../kernel/kernel.ts";

/** Pause after a change of links or addresses before they are read. */
const quietMs = 50;

/** Looks when links or addresses change, by us or by others; many messages are one look. */
export class AddressWatch {
  readonly #look: () => Promise<void>;
  readonly #kernel: Pick<Kernel, "link">;
  readonly #clock: Clock;
  readonly #log: Logger;
  #cancelLook: () => void = () => {};
  #stopWatching: () => void = () => {};

  constructor(
    look: () => Promise<void>,
    parts: { readonly kernel: Pick<Kernel, "link">; readonly clock: Clock; readonly log: Logger },
  ) {
    this.#look = look;
    this.#kernel = parts.kernel;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  start(): void {
    this.#stopWatching = this.#kernel.link.watch(
      () => this.#schedule(),
      (error) => this.#log.warn("Cannot watch links and addresses", { err: error }),
    );
  }

  stop(): void {
    this.#stopWatching();
    this.#cancelLook();
  }

  #schedule(): void {
    this.#cancelLook();
    this.#cancelLook = this.#clock.after(quietMs, () => {
      background(this.#look(), this.#log, "address check");
    });
  }
}
