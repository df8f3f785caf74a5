import type { ResourceKind } from "../../api/source.ts";

/** Knows which resources were completely listed: before that nothing may be planned. */
export class InitialLists {
  readonly #missing = new Set<ResourceKind>(["services", "endpointslices"]);

  get isComplete(): boolean {
    return this.#missing.size === 0;
  }

  note(kind: ResourceKind): void {
    this.#missing.delete(kind);
  }
}
