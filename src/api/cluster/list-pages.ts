import type { Clock } from "../../base/clock.ts";
import { ApiError } from "../api-error.ts";
import type { ApiConnection } from "../connection.ts";
import { type ListHead, parsed, readListHead } from "./answers.ts";
import { ListSplitter } from "./list-splitter.ts";
import { readBody } from "./watched-request.ts";
import type { WatchedResource } from "./watched-resources.ts";

/** One million objects with the page size below. */
const maxPages = 2_000;

/**
 * Reads a list page by page and returns the last page's metadata. Throws ApiError `endless-list` if the pages do not
 * end, for example because a proxy answers every request with the first page.
 */
export async function readPages(
  { name }: Pick<WatchedResource, "name">,
  readPage: (token: string) => Promise<ListHead>,
): Promise<ListHead> {
  let token = "";
  for (let count = 1; count <= maxPages; count += 1) {
    const head = await readPage(token);
    if (head.continueToken === "") return head;
    if (head.continueToken === token) break;
    token = head.continueToken;
  }
  const message = `Cannot list ${name}: the API server returns a continue token with every page; check proxies between this node and the API server`;
  throw new ApiError(message, { reason: "endless-list", resource: name });
}

/** Maximum size of one item. A Node with all its images takes tens of kilobytes. */
const itemLimitBytes = 8 * 1024 * 1024;
const idleMs = 60_000;
const pageSize = "500";

export interface ListConnection {
  readonly connection: ApiConnection;
  readonly clock: Clock;
}

/**
 * Lists a resource once from the API server's cache, in pages if the server supports them. Only one object is in memory
 * at a time. Throws ApiError.
 */
export async function listItems(
  connection: ListConnection,
  given: {
    readonly resource: Pick<WatchedResource, "path" | "name">;
    readonly signal: AbortSignal;
  },
  take: (item: unknown) => void,
): Promise<void> {
  const { resource, signal } = given;
  await readPages(resource, async (token) => {
    const splitter = new ListSplitter(itemLimitBytes);
    const from = token === "" ? { resourceVersion: "0" } : { continue: token };
    const query = { limit: pageSize, ...from };
    await readBody(connection, { resource, query, idleMs, signal }, (chunk) => {
      for (const item of splitter.push(chunk)) take(item);
    });
    if (signal.aborted) return { resourceVersion: "", continueToken: "" };
    return readListHead(
      resource,
      parsed(resource, () => splitter.end()),
    );
  });
}
