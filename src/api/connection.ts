/** A request that changes an object. */
export interface ApiWrite {
  readonly method: "POST" | "PATCH" | "DELETE";
  readonly path: string;
  readonly contentType: string;
  readonly body: string;
}

/** A response that is still arriving. The caller must read the body to its end or abort the signal. */
export interface ApiResponse {
  readonly status: number;
  /** Names are in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: AsyncIterable<Uint8Array>;
}

/** An authenticated connection to one API server. */
export interface ApiConnection {
  /** The server's address, for messages: `https://10.0.0.1:6443`. */
  readonly server: string;
  /**
   * Sends a GET request. Resolves with any HTTP status. Throws ApiError if there is no response. Aborting `signal`
   * ends the request and the body.
   */
  request(
    path: string,
    query: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<ApiResponse>;
  /** Sends a request with a body. Otherwise like {@link request}. */
  send(write: ApiWrite, signal: AbortSignal): Promise<ApiResponse>;
  /** Closes idle connections that are kept for later requests. */
  close(): void;
}

/** Callbacks for request metrics. `host` is `10.0.0.1:6443`. */
export interface RequestObserver {
  /** `code` is the HTTP status, or `<error>` if there was no response. */
  apiRequestAnswered(method: string, host: string, code: string): void;
  /** Called when a response has been read to its end or a request failed. Not called for watches, which have no end. */
  apiRequestEnded(method: string, host: string, figures: RequestFigures): void;
}

export interface RequestFigures {
  readonly seconds: number;
  readonly sentBytes: number;
  /** Uncompressed size. Absent if there was no response. */
  readonly receivedBytes?: number;
}
