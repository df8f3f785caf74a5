/** A request that changes something. */
export interface ApiWrite {
  readonly method: "POST" | "PATCH" | "DELETE";
  readonly path: string;
  readonly contentType: string;
  readonly body: string;
}

/** A request's answer as it arrives; the body must be read to its end or its signal aborted. */
export interface ApiResponse {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: AsyncIterable<Uint8Array>;
}

/** An authenticated way to one API server. */
export interface ApiConnection {
  /** The server's address for messages: `https://10.0.0.1:6443`. */
  readonly server: string;
  /**
   * Sends a GET request. Any HTTP status is an answer; throws ApiError when there is none. Aborting
   * `signal` ends request and body.
   */
  request(
    path: string,
    query: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<ApiResponse>;
  /** Sends a request with a body; answers, throws and ends as {@link request}. */
  send(write: ApiWrite, signal: AbortSignal): Promise<ApiResponse>;
  /** Closes connections that are kept for later requests. */
  close(): void;
}

/** What becomes of requests, for whoever counts them. `host` is `10.0.0.1:6443`. */
export interface RequestObserver {
  /** `code` is the HTTP status, or `<error>` where no answer came. */
  apiRequestAnswered(method: string, host: string, code: string): void;
  /** A request was answered to its end, or failed; watches, which have no end, are not counted. */
  apiRequestEnded(method: string, host: string, figures: RequestFigures): void;
}

export interface RequestFigures {
  readonly seconds: number;
  readonly sentBytes: number;
  /** Unpacked; absent where no answer came. */
  readonly receivedBytes?: number;
}
