/** A failed request to the API server, or an invalid response. */
export class ApiError extends Error {
  /** The HTTP status. 0 if there was no response. */
  readonly status: number;
  /**
   * A code: the reason of the server's Status object (`Forbidden`), an errno or TLS error name (`ECONNREFUSED`), or a
   * code of kube-ipvs: `endless-list`, `idle-timeout`, `malformed-answer`, `older-history`, `short-watch`,
   * `no-credentials`.
   */
  readonly reason: string;
  /** The requested resource, such as `endpointslices.discovery.k8s.io`. Empty for errors of the connection itself. */
  readonly resource: string;
  /** The delay from a Retry-After header. Undefined if the response has none. */
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

/** kube-ipvs's own reasons, except those for the connection. */
const ownReasons: ReadonlySet<string> = new Set([
  ...["endless-list", "idle-timeout", "malformed-answer", "older-history", "short-watch"],
  "no-credentials",
]);

/** Whether the server no longer knows the resourceVersion or the continue token. */
export function isGone(error: unknown): boolean {
  return error instanceof ApiError && error.status === 410;
}

/** Whether a list had too many pages. */
export function isEndless(error: unknown): boolean {
  return error instanceof ApiError && error.reason === "endless-list";
}

/** Whether the reported objects may be outdated, so that a new list is necessary. */
export function needsList(error: unknown): boolean {
  return isGone(error) || (error instanceof ApiError && error.reason === "older-history");
}

/** Whether the connection failed. If so, the server may have been restored from a backup before the next connection. */
export function isOutage(error: unknown): boolean {
  return error instanceof ApiError && error.status === 0 && !ownReasons.has(error.reason);
}

/** Whether a watch received nothing, not even a bookmark, for too long. */
export function isSilence(error: unknown): boolean {
  return error instanceof ApiError && error.reason === "idle-timeout";
}

/**
 * Whether the server is reachable but rejected the request, sent an invalid response, or closed a watch immediately. If
 * so, waiting may not help.
 */
export function isAnswered(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false;
  return error.status !== 0 || ["malformed-answer", "short-watch"].includes(error.reason);
}
