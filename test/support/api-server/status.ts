import type { ServerResponse } from "node:http";

/** Reasons in Status objects by code, as in a real API server. */
const reasons: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  409: "Conflict",
  410: "Expired",
  422: "Invalid",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

/** The object in which an API server wraps a failure. */
export function statusObject(code: number, message: string): Readonly<Record<string, unknown>> {
  const reason = reasons[code] ?? "Unknown";
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message,
    reason,
    code,
  };
}

/** Responds to a request with an error. */
export function sendStatus(response: ServerResponse, code: number, message: string): void {
  response.writeHead(code, { "content-type": "application/json" });
  response.end(`${JSON.stringify(statusObject(code, message))}\n`);
}
