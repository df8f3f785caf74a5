/** Answers in the format of Go's HTTP servers. */
import type { HttpAnswer } from "../http-listener.ts";

const nosniff = { "X-Content-Type-Options": "nosniff" } as const;

export function textAnswer(body: string, status = 200): HttpAnswer {
  return { status, headers: { "Content-Type": "text/plain; charset=utf-8", ...nosniff }, body };
}

/** The answer to any request for an unknown path. */
export const notFound: HttpAnswer = textAnswer("404 page not found\n", 404);

export function jsonAnswer(value: unknown): HttpAnswer {
  const headers = { "Content-Type": "application/json", ...nosniff };
  return { status: 200, headers, body: `${JSON.stringify(value)}\n` };
}
