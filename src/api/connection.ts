/** A GET request's answer as it arrives; the body must be read to its end or its signal aborted. */
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
  /** Closes connections that are kept for later requests. */
  close(): void;
}
