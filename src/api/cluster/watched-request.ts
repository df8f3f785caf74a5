import type { Clock } from "../../base/clock.ts";
import { ApiError } from "../api-error.ts";
import type { ApiConnection } from "../connection.ts";
import { expectOk } from "./answers.ts";
import type { WatchedResource } from "./watched-resources.ts";

/**
 * Sends a request and hands its body's chunks to `take`. Ends with ApiError `idle-timeout` when nothing comes
 * for `idleMs`: a connection whose other end is gone looks just like a quiet one.
 */
export async function readBody(
  dependencies: { readonly connection: ApiConnection; readonly clock: Clock },
  request: {
    readonly resource: WatchedResource;
    readonly query: Readonly<Record<string, string>>;
    readonly idleMs: number;
    readonly signal: AbortSignal;
    /** Called when the server has answered and the body begins. */
    readonly opened: () => void;
  },
  take: (chunk: Uint8Array) => void,
): Promise<void> {
  const { connection, clock } = dependencies;
  const { resource, query, idleMs, signal } = request;
  const abort = new AbortController();
  const stop = (): void => abort.abort();
  let isIdle = false;
  const expire = (): void => {
    isIdle = true;
    abort.abort();
  };
  let cancel = clock.after(idleMs, expire);
  signal.addEventListener("abort", stop, { once: true });
  try {
    signal.throwIfAborted();
    const response = await connection.request(resource.path, query, abort.signal);
    await expectOk(resource, response);
    request.opened();
    for await (const chunk of response.body) {
      cancel();
      cancel = clock.after(idleMs, expire);
      take(chunk);
      if (signal.aborted) break;
    }
  } catch (error) {
    if (!isIdle) throw error;
    const message = `Cannot read ${resource.name}: no sign of the API server ${connection.server} for ${idleMs / 1000} s`;
    throw new ApiError(message, { reason: "idle-timeout", resource: resource.name, cause: error });
  } finally {
    cancel();
    signal.removeEventListener("abort", stop);
    // Ends what is left of the body when reading it failed.
    abort.abort();
  }
}
