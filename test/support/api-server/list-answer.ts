import type { ServerResponse } from "node:http";
import type { ApiObject } from "../objects.ts";
import { BodyWriter } from "./body-writer.ts";
import type { Fault } from "./faults.ts";
import type { ObjectStore } from "./object-store.ts";
import { objectKey } from "./resources.ts";
import { selectorOf } from "./selectors.ts";
import type { ServedResource } from "./served-resources.ts";
import { sendStatus } from "./status.ts";

/** A request for objects and the fault that affects it. */
export interface ResourceRequest {
  readonly served: ServedResource;
  readonly query: URLSearchParams;
  readonly fault: Fault | undefined;
}

/** Returns lists page by page. A continue token is the last key of a page. Tests can expire all tokens. */
export class ListAnswer {
  /** Whether lists are returned without pages, as from a watch cache. */
  ignoresLimit = false;
  readonly #store: ObjectStore;
  #generation = 0;

  constructor(store: ObjectStore) {
    this.#store = store;
  }

  expireContinues(): void {
    this.#generation += 1;
  }

  send(response: ServerResponse, { served, query, fault }: ResourceRequest): void {
    const after = this.#keyOf(query.get("continue"));
    if (after === undefined) {
      sendStatus(response, 410, "The provided continue parameter is too old");
      return;
    }
    const selected = this.#store.list(served.resource).filter(selectorOf(query));
    const rest = selected.filter((object) => objectKey(object) > after);
    const limit = this.ignoresLimit ? 0 : Number(query.get("limit") ?? 0);
    const items = limit > 0 ? rest.slice(0, limit) : rest;
    const head = {
      kind: `${served.resource.kind}List`,
      apiVersion: served.apiVersion,
      metadata: this.#metadataOf(items, rest.length - items.length),
    };
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    writeList(new BodyWriter(response, fault), head, items.map(served.convert));
  }

  #metadataOf(items: readonly ApiObject[], remainingItemCount: number): Record<string, unknown> {
    const resourceVersion = String(this.#store.revision);
    const last = items.at(-1);
    if (last === undefined || remainingItemCount === 0) return { resourceVersion };
    return { resourceVersion, continue: this.#tokenOf(objectKey(last)), remainingItemCount };
  }

  #tokenOf(key: string): string {
    return Buffer.from(`${this.#generation} ${key}`).toString("base64url");
  }

  /** The key after which a page begins. Empty for the first page, `undefined` for an expired token. */
  #keyOf(token: string | null): string | undefined {
    if (token === null || token === "") return "";
    const [generation, key] = Buffer.from(token, "base64url").toString().split(" ");
    return generation === String(this.#generation) ? key : undefined;
  }
}

/** Writes in pieces, so that a list of many megabytes is never one string in memory. */
function writeList(body: BodyWriter, head: object, items: readonly ApiObject[]): void {
  body.write(`${JSON.stringify(head).slice(0, -1)},"items":[`);
  for (const [index, { kind: _kind, apiVersion: _apiVersion, ...bare }] of items.entries()) {
    body.write(`${index === 0 ? "" : ","}${JSON.stringify(bare)}`);
  }
  body.write("]}\n");
  body.end();
}
