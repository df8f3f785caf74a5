import type { ResourceKind } from "../api/source.ts";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";

/** The Node object is waited for this long before planning goes on without it, as upstream. */
const nodeWaitMs = 30_000;

/** Knows which resources were completely listed: before that nothing may be planned. */
export class InitialLists {
  readonly #missing = new Set<ResourceKind>(["services", "endpointslices", "nodes"]);
  readonly #onListed: () => void;
  readonly #clock: Clock;
  readonly #log: Logger;
  #cancelNodeWait: () => void = () => {};

  /** `onListed` is called with each list that arrives or is given up. */
  constructor(
    onListed: () => void,
    { clock, log }: { readonly clock: Clock; readonly log: Logger },
  ) {
    this.#onListed = onListed;
    this.#clock = clock;
    this.#log = log;
  }

  get isComplete(): boolean {
    return this.#missing.size === 0;
  }

  /** From now on the Node object is waited for. */
  start(nodeName: string): void {
    this.#cancelNodeWait = this.#clock.after(nodeWaitMs, () => {
      if (!this.#missing.has("nodes")) return;
      this.#log.warn("The Node object did not arrive; going on without it", { node: nodeName });
      this.note("nodes");
    });
  }

  stop(): void {
    this.#cancelNodeWait();
  }

  note(kind: ResourceKind): void {
    this.#missing.delete(kind);
    if (kind === "nodes") this.#cancelNodeWait();
    this.#onListed();
  }
}
