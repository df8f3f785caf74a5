import type { ApiObject } from "../objects.ts";
import type { BodyWriter } from "./body-writer.ts";
import type { StoreEvent } from "./object-store.ts";
import type { Resource } from "./resources.ts";
import type { Selector } from "./selectors.ts";

export interface WatchStreamOptions {
  readonly resource: Resource;
  readonly selects: Selector;
  readonly sendsBookmarks: boolean;
}

/** One open watch: store events become lines. */
export class WatchStream {
  readonly #body: BodyWriter;
  readonly #options: WatchStreamOptions;

  constructor(body: BodyWriter, options: WatchStreamOptions) {
    this.#body = body;
    this.#options = options;
  }

  /** A change into or out of the selection is seen as a birth or death. */
  tell({ resource, previous, current }: StoreEvent): void {
    if (resource !== this.#options.resource) return;
    const { selects } = this.#options;
    const was = previous !== undefined && selects(previous);
    const is = current !== undefined && selects(current);
    if (is) this.send(was ? "MODIFIED" : "ADDED", current);
    else if (was) this.send("DELETED", lastState(previous, current));
  }

  bookmark(revision: number): void {
    if (!this.#options.sendsBookmarks) return;
    const { apiVersion, kind } = this.#options.resource;
    this.send("BOOKMARK", {
      apiVersion,
      kind,
      metadata: { resourceVersion: String(revision), creationTimestamp: null },
    });
  }

  send(type: string, object: unknown): void {
    this.sendText(`${JSON.stringify({ type, object })}\n`);
  }

  sendText(text: string): void {
    this.#body.write(text);
  }

  stall(): void {
    this.#body.stall();
  }

  end(): void {
    this.#body.end();
  }
}

/** A deletion carries the last state, at the revision of the deletion. */
function lastState(previous: ApiObject, current: ApiObject | undefined): ApiObject {
  if (current === undefined) return previous;
  const { resourceVersion } = current.metadata;
  return { ...previous, metadata: { ...previous.metadata, resourceVersion } };
}
