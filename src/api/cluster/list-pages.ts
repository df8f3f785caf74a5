import { ApiError } from "../api-error.ts";
import type { ListHead } from "./answers.ts";
import type { WatchedResource } from "./watched-resources.ts";

/** A million objects at the page size that we ask for. */
const maxPages = 2_000;

/**
 * Reads a list page by page and returns the head of the last one. Throws ApiError `endless-list` if the pages do not end, as with a
 * proxy that answers every page with the first one.
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
  const message = `Cannot list ${name}: the API server returns a continue token with every page; check proxies on the way to it`;
  throw new ApiError(message, { reason: "endless-list", resource: name });
}
