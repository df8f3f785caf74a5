import type { Clock } from "../../base/clock.ts";
import { TimeSlice } from "../../base/time-slice.ts";
import { ApiError } from "../api-error.ts";
import type { ApiConnection } from "../connection.ts";
import { expectOk, parsed } from "./answers.ts";
import type { WatchedResource } from "./watched-resources.ts";

export interface BodyRequest {
  readonly resource: Pick<WatchedResource, "path" | "name">;
  readonly query: Readonly<Record<string, string>>;
  readonly idleMs: number;
  readonly signal: AbortSignal;
  /** Called after a successful response, before the body is read. */
  readonly opened?: () => void;
}

/**
 * Sends a request and passes the chunks of the response body to `take`. Syntax and range errors from `take` become
 * ApiError `malformed-answer`. Throws ApiError `idle-timeout` if nothing arrives for `idleMs`, because a dead
 * connection looks like a quiet one.
 */
export async function readBody(
  { connection, clock }: { readonly connection: ApiConnection; readonly clock: Clock },
  request: BodyRequest,
  take: (chunk: Uint8Array) => void,
): Promise<void> {
  const { resource, query, idleMs, signal } = request;
  const abort = new AbortController();
  let isSilent = false;
  let cancel = (): void => {};
  const awaitSign = (): void => {
    cancel();
    cancel = clock.after(idleMs, () => {
      isSilent = true;
      abort.abort();
    });
  };
  awaitSign();
  try {
    signal.throwIfAborted();
    const either = AbortSignal.any([signal, abort.signal]);
    const response = await connection.request(resource.path, query, either);
    await expectOk(resource, response);
    request.opened?.();
    const slice = new TimeSlice(clock, "large");
    for await (const chunk of response.body) {
      awaitSign();
      parsed(resource, () => take(chunk));
      // Pauses, because a body that arrives quickly would otherwise delay timers and other sockets.
      await slice.pause();
      if (signal.aborted) break;
    }
  } catch (error) {
    if (!isSilent) throw error;
    const message = `Cannot read ${resource.name}: API server ${connection.server} sent nothing for ${idleMs / 1000} s`;
    throw new ApiError(message, { reason: "idle-timeout", resource: resource.name, cause: error });
  } finally {
    cancel();
    // Aborts the rest of the body if reading failed.
    abort.abort();
  }
}
