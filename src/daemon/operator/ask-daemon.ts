import { request } from "node:http";
import { readAnswer } from "../../answer/answer.ts";
import type { Answers } from "../../answer/answers.ts";
import { parseJson } from "../../base/parse-json.ts";

/** The path and query of a request to the operator socket, and the kind of its answer. */
export interface Question<Kind extends keyof Answers> {
  readonly kind: Kind;
  readonly target: string;
}

/** An answer, or the reason why there is none. */
export type Asked<Kind extends keyof Answers> =
  | { readonly kind: "answer"; readonly answer: Answers[Kind] }
  | NoAnswer;

type NoAnswer =
  /** No process listens on the socket. */
  | { readonly kind: "absent"; readonly reason: string; readonly isDenied?: never }
  /**
   * `isDenied`: this process may not connect to the socket, so it is unknown whether a daemon is running. `isClosed`:
   * the connection ended before an answer.
   */
  | {
      readonly kind: "failed";
      readonly reason: string;
      readonly isDenied?: true;
      readonly isClosed?: true;
    };

type Reply = { readonly kind: "answer"; readonly text: string } | NoAnswer;

/** Lists are streamed, so a daemon that sends nothing for this long hangs or is suspended. */
const longestSilenceMs = 5_000;
/** The daemon's HTTP server answers with this status if a request arrives too late. */
const requestTimeoutStatus = 408;
/** Maximum length of an answer: ten times the length of a list of all endpoints in the largest clusters. */
const maxBytes = 1_000_000_000;

/**
 * Sends a request to the daemon on this socket. The result is a failure if no data arrives for 5 s. Repeats the
 * request once if the daemon closes the connection, because on a busy node the first request may arrive too late.
 * Rejects only if the daemon has a different version.
 */
export async function askDaemon<Kind extends keyof Answers>(
  socketPath: string,
  { kind, target }: Question<Kind>,
): Promise<Asked<Kind>> {
  if (socketPath === "") return absent("kubeIpvs.operatorSocket is empty");
  const first = await askOnce(socketPath, target);
  const isClosed = first.kind === "failed" && first.isClosed === true;
  const reply = isClosed ? await askOnce(socketPath, target) : first;
  return reply.kind === "answer" ? { kind: "answer", answer: readAnswer(kind, reply.text) } : reply;
}

function askOnce(socketPath: string, target: string): Promise<Reply> {
  return new Promise((resolve) => {
    const failed = (error: Error): void => resolve(replyOf(error as NodeJS.ErrnoException));
    // Uses no agent, because an agent may reuse a connection that the daemon is closing.
    const options = { socketPath, path: target, timeout: longestSilenceMs, agent: false };
    const asked = request(options, (response) => {
      const chunks: Buffer[] = [];
      let lengthBytes = 0;
      response.on("data", (chunk: Buffer) => {
        lengthBytes += chunk.length;
        if (lengthBytes > maxBytes) asked.destroy(new Error(`more than ${maxBytes} bytes`));
        else chunks.push(chunk);
      });
      response.on("error", ({ message }) => failed(new Error(message)));
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        if (response.statusCode === 200) resolve({ kind: "answer", text });
        else if (response.statusCode === requestTimeoutStatus) resolve(closed("HTTP 408"));
        else failed(new Error(refusalText(response.statusCode, text)));
      });
    });
    asked.on("timeout", () =>
      asked.destroy(new Error(`no answer within ${longestSilenceMs / 1_000} s`)),
    );
    asked.on("error", failed);
    asked.end();
  });
}

/** The daemon's error message, or else the HTTP status and body. */
function refusalText(status: number | undefined, text: string): string {
  try {
    const { message } = parseJson(text) as { readonly message?: unknown };
    if (typeof message === "string") return message;
  } catch {
    // The answer did not come from kube-ipvs.
  }
  return `HTTP ${status}: ${text.trim().slice(0, 500)}`;
}

function replyOf({ code, message }: NodeJS.ErrnoException): NoAnswer {
  if (code === "ENOENT" || code === "ECONNREFUSED") return absent(code);
  if (code === "EACCES" || code === "EPERM") {
    return { kind: "failed", reason: `${code} (run this command as root)`, isDenied: true };
  }
  if (code === "EPIPE" || code === "ECONNRESET") return closed(code);
  return { kind: "failed", reason: message };
}

function closed(code: string): NoAnswer {
  const reason = `${code}: the daemon closed the connection; if the node is busy, try again`;
  return { kind: "failed", reason, isClosed: true };
}

function absent(reason: string): NoAnswer {
  return { kind: "absent", reason };
}
