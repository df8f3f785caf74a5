import type { ApiObject } from "../objects.ts";
import type { BodyWriter } from "./body-writer.ts";
import type { StoreEvent } from "./object-store.ts";
import type { Selector } from "./selectors.ts";
import type { ServedResource } from "./served-resources.ts";

export interface WatchStreamOptions {
  readonly served: ServedResource;
  readonly selects: Selector;
  readonly sendsBookmarks: boolean;
}

/** One open watch, which converts store events to lines. */
export class WatchStream {
  readonly #body: BodyWriter;
  readonly #options: WatchStreamOptions;

  constructor(body: BodyWriter, options: WatchStreamOptions) {
    this.#body = body;
    this.#options = options;
  }

  /** Reports an object that enters or leaves the selection as created or deleted. */
  tell({ resource, previous, current }: StoreEvent): void {
    const { served, selects } = this.#options;
    if (resource !== served.resource) return;
    const was = previous !== undefined && selects(previous);
    const is = current !== undefined && selects(current);
    if (is) this.sendObject(was ? "MODIFIED" : "ADDED", current);
    else if (was) this.sendObject("DELETED", lastState(previous, current));
  }

  bookmark(revision: number): void {
    if (!this.#options.sendsBookmarks) return;
    const { apiVersion, resource } = this.#options.served;
    this.send("BOOKMARK", {
      apiVersion,
      kind: resource.kind,
      metadata: { resourceVersion: String(revision), creationTimestamp: null },
    });
  }

  /** Sends the object in its stored version. */
  sendObject(type: string, object: ApiObject): void {
    this.send(type, this.#options.served.convert(object));
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

/** A deletion event contains the last state with the deletion's revision. */
function lastState(previous: ApiObject, current: ApiObject | undefined): ApiObject {
  if (current === undefined) return previous;
  const { resourceVersion } = current.metadata;
  return { ...previous, metadata: { ...previous.metadata, resourceVersion } };
}
