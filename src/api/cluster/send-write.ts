import type { Clock } from "../../base/clock.ts";
import type { ApiConnection, ApiWrite } from "../connection.ts";

const timeoutMs = 10_000;

/**
 * Sends a write and discards the answer's body. Resolves with the HTTP status. Rejects if there is no answer in time.
 */
export async function sendWrite(
  { connection, clock }: { readonly connection: ApiConnection; readonly clock: Clock },
  write: ApiWrite,
  stop: AbortSignal,
): Promise<number> {
  const abort = new AbortController();
  const cancel = clock.after(timeoutMs, () => abort.abort());
  const signal = AbortSignal.any([stop, abort.signal]);
  try {
    const { status, body } = await connection.send(write, signal);
    for await (const _chunk of body) if (signal.aborted) break;
    return status;
  } finally {
    cancel();
  }
}
