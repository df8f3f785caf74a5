/** What one end of a connection is asked to do, and what it saw. Values that travel between threads. */
import type { Protocol } from "../../src/base/protocol.ts";

export interface Listener {
  readonly protocol: Protocol;
  /** `::` is every address of both families. */
  readonly address: string;
  readonly port: number;
}

export interface Probe {
  readonly protocol: Protocol;
  readonly address: string;
  readonly port: number;
  /** The client's own address; absent: the kernel's choice. */
  readonly source?: string;
  /** Bytes sent; in one datagram with UDP. SCTP: 1. */
  readonly payloadBytes: number;
  /** Bytes that the answer is to have at least; in one datagram with UDP. SCTP: it is as long as it is. */
  readonly answerBytes: number;
  readonly timeoutMs: number;
}

/** What a backend says of itself. */
export interface Answer {
  /** Name of the place. */
  readonly backend: string;
  /** The client's address, as it saw it. */
  readonly source: string;
  /** How much of the payload reached it. */
  readonly receivedBytes: number;
}

export type Outcome =
  | { readonly kind: "answer"; readonly answer: Answer }
  /** Someone said no at once: TCP reset or ICMP port unreachable. */
  | { readonly kind: "refused" }
  | { readonly kind: "silence" }
  | { readonly kind: "failure"; readonly code: string };

export type Request =
  | { readonly kind: "listen"; readonly listeners: readonly Listener[] }
  | { readonly kind: "probe"; readonly probe: Probe };

/** What the thread gets, and what it answers under the same number. */
export interface Call {
  readonly id: number;
  readonly request: Request;
}

export interface Reply {
  readonly id: number;
  /** Absent: done, nothing to report. */
  readonly outcome?: Outcome;
  readonly error?: string;
}

/**
 * The wire format. A request begins with the line "payload answer", both in bytes, followed by the payload;
 * an answer is a line of JSON, made longer by blanks.
 */
export function requestText({ payloadBytes, answerBytes }: Probe): string {
  const head = `${payloadBytes} ${answerBytes}\n`;
  return head + "x".repeat(payloadBytes);
}

interface ParsedRequest {
  readonly payloadBytes: number;
  readonly answerBytes: number;
  readonly headBytes: number;
}

/** Undefined while the first line is not complete. */
export function parseRequest(text: string): ParsedRequest | undefined {
  const [head, payload, answer] = /^(\d+) (\d+)\n/.exec(text) ?? [];
  if (head === undefined) return undefined;
  return {
    payloadBytes: Number(payload),
    answerBytes: Number(answer),
    headBytes: head.length,
  };
}

export function answerText(answer: Answer, answerBytes: number): string {
  return `${JSON.stringify(answer).padEnd(answerBytes - 1)}\n`;
}

/** Undefined while the line is not complete. */
export function parseAnswer(text: string): Answer | undefined {
  return text.endsWith("\n") ? (JSON.parse(text) as Answer) : undefined;
}
