import type { Clock } from "../../base/clock.ts";
import { TimeSlice } from "../../base/time-slice.ts";
import { ApiError } from "../api-error.ts";
import type { ApiConnection } from "../connection.ts";
import { expectOk } from "./answers.ts";
import type { WatchedResource } from "./watched-resources.ts";

export interface BodyRequest {
  readonly resource: Pick<WatchedResource, "path" | "name">;
  readonly query: Readonly<Record<string, string>>;
  readonly idleMs: number;
  readonly signal: AbortSignal;
  /** Called when the server has answered and the body begins. */
  readonly opened: () => void;
}

/**
 * Sends a request and hands its body's chunks to `take`. Ends with ApiError `idle-timeout` when nothing comes
 * for `idleMs`: a connection whose other end is gone looks just like a quiet one.
 */
export async function readBody(
  { connection, clock }: { readonly connection: ApiConnection; readonly clock: Clock },
  request: BodyRequest,
  take: (chunk: Uint8Array) => void,
): Promise<void> {
  const { resource, query, idleMs, signal } = request;
  const abort = new BodyAbort(clock, idleMs, signal);
  try {
    signal.throwIfAborted();
    const response = await connection.request(resource.path, query, abort.signal);
    await expectOk(resource, response);
    request.opened();
    const slice = new TimeSlice(clock, "large");
    for await (const chunk of response.body) {
      abort.noteSign();
      take(chunk);
      // A body that arrives faster than it is read would keep timers and other sockets waiting.
      await slice.pause();
      if (signal.aborted) break;
    }
  } catch (error) {
    if (!abort.isIdle) throw error;
    const message = `Cannot read ${resource.name}: API server ${connection.server} sent nothing for ${idleMs / 1000} s`;
    throw new ApiError(message, { reason: "idle-timeout", resource: resource.name, cause: error });
  } finally {
    // Ends what is left of the body when reading it failed.
    abort.end();
  }
}

/**
 * Ends a request when it is over, when the caller wants it to end, and when nothing comes for some time. It
 * leaves no listener on the caller's signal, which lives as long as the program.
 */
class BodyAbort {
  readonly #clock: Clock;
  readonly #idleMs: number;
  readonly #caller: AbortSignal;
  readonly #abort = new AbortController();
  readonly #stop = (): void => this.#abort.abort();
  #isIdle = false;
  #cancel: () => void = () => {};

  constructor(clock: Clock, idleMs: number, caller: AbortSignal) {
    this.#clock = clock;
    this.#idleMs = idleMs;
    this.#caller = caller;
    caller.addEventListener("abort", this.#stop, { once: true });
    this.noteSign();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Nothing came for too long. */
  get isIdle(): boolean {
    return this.#isIdle;
  }

  /** Something came: the time counts from now. */
  noteSign(): void {
    this.#cancel();
    this.#cancel = this.#clock.after(this.#idleMs, () => {
      this.#isIdle = true;
      this.#abort.abort();
    });
  }

  end(): void {
    this.#cancel();
    this.#caller.removeEventListener("abort", this.#stop);
    this.#abort.abort();
  }
}
