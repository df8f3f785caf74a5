/** The request to one end of a connection and its result, as values that are passed between threads. */
import type { Protocol } from "../../src/base/protocol.ts";

export interface Listener {
  readonly protocol: Protocol;
  /** `::` means every address of both families. */
  readonly address: string;
  readonly port: number;
}

export interface Probe {
  readonly protocol: Protocol;
  readonly address: string;
  readonly port: number;
  /** The client's source address. Chosen by the kernel if absent. */
  readonly source?: string;
  /** Number of bytes to send, in one datagram with UDP. Always 1 with SCTP. */
  readonly payloadBytes: number;
  /** Minimum size of the answer, in one datagram with UDP. Ignored with SCTP. */
  readonly answerBytes: number;
  readonly timeoutMs: number;
}

/** A backend's answer. */
export interface Answer {
  /** Name of the backend's place. */
  readonly backend: string;
  /** The client address that the backend saw. */
  readonly source: string;
  /** Number of payload bytes that reached the backend. */
  readonly receivedBytes: number;
}

export type Outcome =
  | { readonly kind: "answer"; readonly answer: Answer }
  /** An immediate TCP reset or ICMP port unreachable. */
  | { readonly kind: "refused" }
  | { readonly kind: "silence" }
  | { readonly kind: "failure"; readonly code: string };

export type Request =
  | { readonly kind: "listen"; readonly listeners: readonly Listener[] }
  | { readonly kind: "probe"; readonly probe: Probe };

/** A request to the thread and its answer, which has the same number. */
export interface Call {
  readonly id: number;
  readonly request: Request;
}

export interface Reply {
  readonly id: number;
  /** Undefined if there is nothing to report. */
  readonly outcome?: Outcome;
  readonly error?: string;
}

/**
 * The wire format. A request starts with the line "payload answer", both in bytes, followed by the payload. An answer
 * is a line of JSON, padded with blanks.
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

/** Undefined until the first line is complete. */
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

/** Undefined until the line is complete. */
export function parseAnswer(text: string): Answer | undefined {
  return text.endsWith("\n") ? (JSON.parse(text) as Answer) : undefined;
}
