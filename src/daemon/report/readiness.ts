import type { ResourceKind } from "../../api/source.ts";

const names: Readonly<Record<ResourceKind, string>> = {
  services: "Services",
  endpointslices: "EndpointSlices",
  nodes: "the Node object",
};

/** Whether this node was programmed once since the start, and what that waits for. */
export class Readiness {
  readonly #unlisted = new Set<ResourceKind>(["nodes", "services", "endpointslices"]);
  #hasSynced = false;

  /** A resource was listed completely. */
  listed(kind: ResourceKind): void {
    this.#unlisted.delete(kind);
  }

  /** A sync succeeded. */
  synced(): void {
    this.#hasSynced = true;
  }

  /** Why the proxy is not ready yet; undefined once it was. */
  get reason(): string | undefined {
    if (this.#hasSynced) return undefined;
    const missing = [...this.#unlisted].map((kind) => names[kind]);
    if (missing.length === 0) return "The first sync has not succeeded yet";
    return `The first sync waits for ${missing.join(", ")}`;
  }
}
