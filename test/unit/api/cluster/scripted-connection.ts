import { ApiError } from "../../../../src/api/api-error.ts";
import type { ApiConnection, ApiResponse, ApiWrite } from "../../../../src/api/connection.ts";

/** A request that is waiting for the test's answer. */
export interface PendingRequest {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** Undefined for a GET request. */
  readonly write?: ApiWrite;
  /** Whether the client has aborted the request. */
  readonly isAborted: () => boolean;
  /** Simulates a failed connection. */
  refuse(): void;
  /** Begins an answer, whose body follows. */
  answer(status?: number, headers?: Readonly<Record<string, string>>): Body;
}

/** The body of an answer, which is sent in pieces. */
export interface Body {
  send(text: string): void;
  end(): void;
}

/** A connection without a server. The test sees each request and acts as the server. */
export class ScriptedConnection implements ApiConnection {
  readonly server = "https://test:6443";
  readonly requests: PendingRequest[] = [];
  isClosed = false;

  /** The newest request. Fails if none is waiting. */
  get latest(): PendingRequest {
    const request = this.requests.at(-1);
    if (request === undefined) throw new Error("No request was made");
    return request;
  }

  request(
    path: string,
    query: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<ApiResponse> {
    return this.#note({ path, query }, signal);
  }

  send(write: ApiWrite, signal: AbortSignal): Promise<ApiResponse> {
    return this.#note({ path: write.path, query: {}, write }, signal);
  }

  #note(
    asked: Pick<PendingRequest, "path" | "query" | "write">,
    signal: AbortSignal,
  ): Promise<ApiResponse> {
    return new Promise((resolve, reject) => {
      const abort = (): void => reject(new Error("aborted"));
      signal.addEventListener("abort", abort, { once: true });
      this.requests.push({
        ...asked,
        isAborted: () => signal.aborted,
        refuse: () =>
          reject(new ApiError("Cannot reach the API server", { reason: "ECONNREFUSED" })),
        answer: (status = 200, headers = {}) => {
          const queue = new BodyQueue(signal);
          resolve({ status, headers, body: queue });
          return queue;
        },
      });
    });
  }

  close(): void {
    this.isClosed = true;
  }
}

class BodyQueue implements Body, AsyncIterable<Uint8Array> {
  readonly #signal: AbortSignal;
  #chunks: Uint8Array[] = [];
  #isEnded = false;
  #wake = (): void => {};

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener("abort", () => this.#wake(), { once: true });
  }

  send(text: string): void {
    this.#chunks.push(Buffer.from(text));
    this.#wake();
  }

  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      if (this.#signal.aborted) throw new Error("aborted");
      const chunk = this.#chunks.shift();
      if (chunk !== undefined) yield chunk;
      else if (this.#isEnded) return;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }
}
