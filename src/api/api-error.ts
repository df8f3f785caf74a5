/** A request to the API server that failed, or an answer that makes no sense. */
export class ApiError extends Error {
  /** The HTTP status; 0 when there was no answer. */
  readonly status: number;
  /**
   * A code: the reason of the server's Status object (`Forbidden`), an errno or TLS name (`ECONNREFUSED`), or
   * ours: `endless-list`, `idle-timeout`, `malformed-answer`, `older-history`, `short-watch`, `no-credentials`.
   */
  readonly reason: string;
  /** What was asked for: `endpointslices.discovery.k8s.io`; empty for the connection itself. */
  readonly resource: string;
  /** What the server asked for in a Retry-After header; `undefined` without one. */
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    facts: {
      readonly status?: number;
      readonly reason: string;
      readonly resource?: string;
      readonly retryAfterMs?: number | undefined;
      readonly cause?: unknown;
    },
  ) {
    super(message, { cause: facts.cause });
    this.name = "ApiError";
    this.status = facts.status ?? 0;
    this.reason = facts.reason;
    this.resource = facts.resource ?? "";
    this.retryAfterMs = facts.retryAfterMs;
  }
}

/** The server no longer knows the resourceVersion or the continue token. */
export function isGone(error: unknown): boolean {
  return error instanceof ApiError && error.status === 410;
}

/** The pages of a list did not end. */
export function isEndless(error: unknown): boolean {
  return error instanceof ApiError && error.reason === "endless-list";
}

/** What was reported so far may be out of date: only a new list helps. */
export function needsList(error: unknown): boolean {
  return isGone(error) || (error instanceof ApiError && error.reason === "older-history");
}

/** Nothing came for too long, not even a bookmark. */
export function isSilence(error: unknown): boolean {
  return error instanceof ApiError && error.reason === "idle-timeout";
}

/** The server is there and refuses this request, or answers nonsense; waiting for it may not help. */
export function isAnswered(error: unknown): boolean {
  return error instanceof ApiError && (error.status !== 0 || error.reason === "malformed-answer");
}
