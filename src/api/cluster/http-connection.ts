import { type IncomingMessage, request as requestHttp } from "node:http";
import { type RequestOptions, request as requestHttps } from "node:https";
import { checkServerIdentity } from "node:tls";
import { createGunzip } from "node:zlib";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { systemErrorCode } from "../../base/system-error-text.ts";
import { ApiError } from "../api-error.ts";
import type { ApiConnection, ApiResponse, ApiWrite, RequestObserver } from "../connection.ts";
import type { Credentials } from "./credentials.ts";
import { RequestPace, type RequestRate } from "./request-pace.ts";

/** Idle time before TCP keepalive probes start (SO_KEEPALIVE). */
const keepAliveMs = 30_000;

export interface HttpConnectionOptions {
  readonly userAgent: string;
  readonly clock: Clock;
  /** If undefined, requests are not counted. */
  readonly observer?: RequestObserver;
  /** If undefined, requests are sent immediately. */
  readonly rate?: RequestRate;
}

/** A request to send. */
interface Outgoing {
  readonly url: URL;
  readonly method: string;
  readonly isWatch: boolean;
  /** Whether this is a later page of a list. Only the first page counts against the rate. */
  readonly isNextPage: boolean;
  readonly contentType?: string;
  readonly body?: string;
}

/** Sends requests with node:http or node:https, with current credentials. */
export class HttpConnection implements ApiConnection {
  readonly server: string;
  readonly #credentials: Credentials;
  readonly #options: HttpConnectionOptions;
  readonly #pace: RequestPace | undefined;

  constructor(credentials: Credentials, options: HttpConnectionOptions) {
    this.server = credentials.server;
    this.#credentials = credentials;
    this.#options = options;
    const { clock, rate } = options;
    this.#pace = rate === undefined ? undefined : new RequestPace(clock, rate);
  }

  request(
    path: string,
    query: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<ApiResponse> {
    const url = new URL(`${this.server}${path}?${new URLSearchParams(query)}`);
    const isWatch = query["watch"] === "true";
    const isNextPage = query["continue"] !== undefined;
    return this.#exchange({ url, method: "GET", isWatch, isNextPage }, signal);
  }

  send({ method, path, contentType, body }: ApiWrite, signal: AbortSignal): Promise<ApiResponse> {
    const url = new URL(`${this.server}${path}`);
    const kind = { isWatch: false, isNextPage: false };
    return this.#exchange({ url, method, contentType, body, ...kind }, signal);
  }

  async #exchange(request: Outgoing, signal: AbortSignal): Promise<ApiResponse> {
    if (!request.isNextPage) await this.#pace?.wait(signal);
    signal.throwIfAborted();
    const { headers, agent } = await this.#credentials.current();
    const { url, method, isWatch, contentType, body = "" } = request;
    const options: RequestOptions = {
      method,
      agent,
      signal,
      // Checks the name here, because proxy agents drop a host that is an IP address and check "localhost" instead.
      checkServerIdentity: (_host, certificate) =>
        checkServerIdentity(this.#credentials.certifiedName, certificate),
      headers: {
        accept: "application/json",
        "accept-encoding": "gzip",
        "user-agent": this.#options.userAgent,
        ...(contentType === undefined ? {} : bodyHeaders(contentType, body)),
        ...headers,
      },
    };
    const { observer, clock } = this.#options;
    const startedAtMs = clock.monotonicMs();
    /** Watches are counted but have no duration and no size. */
    const ended = (received: { readonly receivedBytes?: number }): void => {
      if (isWatch) return;
      const seconds = (clock.monotonicMs() - startedAtMs) / 1000;
      const sentBytes = Buffer.byteLength(body);
      observer?.apiRequestEnded(method, url.host, { seconds, sentBytes, ...received });
    };
    const message = await this.#send(url, options, body).catch((error: unknown) => {
      observer?.apiRequestAnswered(method, url.host, "<error>");
      ended({});
      throw error;
    });
    const status = message.statusCode ?? 0;
    observer?.apiRequestAnswered(method, url.host, String(status));
    if (status === 401) this.#credentials.drop();
    return { status, headers: message.headers, body: this.#bodyOf(message, ended) };
  }

  close(): void {
    this.#credentials.close();
  }

  #send(url: URL, options: RequestOptions, body: string): Promise<IncomingMessage> {
    const send = url.protocol === "https:" ? requestHttps : requestHttp;
    return new Promise<IncomingMessage>((resolve, reject) => {
      const request = send(url, options, resolve);
      request.on("socket", (socket) => socket.setKeepAlive(true, keepAliveMs));
      request.on("error", (error) => reject(this.#unreachable(error)));
      request.end(body);
      // Creating the connection loads the certificates, which may fail.
    }).catch((error: unknown) => {
      throw error instanceof ApiError ? error : this.#unreachable(error);
    });
  }

  /** `ended` is called when the response has been read to its end or the reader has stopped. */
  async *#bodyOf(
    message: IncomingMessage,
    ended: (received: { readonly receivedBytes: number }) => void,
  ): AsyncGenerator<Uint8Array> {
    let receivedBytes = 0;
    const isPacked = message.headers["content-encoding"] === "gzip";
    const body = isPacked ? message.pipe(createGunzip()) : message;
    // `pipe` does not forward errors of its source.
    if (isPacked) message.on("error", (error) => body.destroy(error));
    try {
      for await (const chunk of body) {
        receivedBytes += (chunk as Uint8Array).length;
        yield chunk as Uint8Array;
      }
    } catch (error) {
      throw this.#unreachable(error);
    } finally {
      ended({ receivedBytes });
      message.destroy();
    }
  }

  #unreachable(error: unknown): ApiError {
    const code = systemErrorCode(error) ?? "unreachable";
    const words = plainWords(errorText(error)) || code;
    const text = words.includes(code) ? words : `${code} (${words})`;
    const message = `Cannot reach API server ${this.server}: ${text}${adviceFor(code)}`;
    return new ApiError(message, { reason: code, cause: error });
  }
}

/** Removes Node.js's advice about its own command-line flags, and OpenSSL's source locations. */
function plainWords(text: string): string {
  return text
    .replace(/; if the root CA is installed .*$/s, "")
    .replace(/^.*:(?:SSL|x509 certificate|PEM) routines:[^:]*:([^:]+).*$/s, "$1");
}

/** Sets the length explicitly, because Node.js otherwise does not frame the body of a DELETE. */
function bodyHeaders(contentType: string, body: string): Readonly<Record<string, string>> {
  return { "content-type": contentType, "content-length": String(Buffer.byteLength(body)) };
}

/** Advice for the operator, by system or TLS error code. */
const advices: Readonly<Record<string, string>> = {
  ECONNREFUSED:
    "nothing is listening there; check that the API server is running and that the address is correct",
  ENOTFOUND: "unknown hostname; check server in the kubeconfig, or --master",
  EAI_AGAIN:
    "DNS lookup failed; check that the DNS server is reachable without this node's Services",
  EHOSTUNREACH: "no route to host; check the node's network",
  ENETUNREACH: "no route to host; check the node's network",
  ETIMEDOUT: "timed out; check firewalls and the address",
  CERT_HAS_EXPIRED: "the server's certificate has expired; check it and the node's clock",
  DEPTH_ZERO_SELF_SIGNED_CERT: "check certificate-authority in the kubeconfig",
  SELF_SIGNED_CERT_IN_CHAIN: "check certificate-authority in the kubeconfig",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "check certificate-authority in the kubeconfig",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "check certificate-authority in the kubeconfig",
  ERR_TLS_CERT_ALTNAME_INVALID:
    "use a name that is in the certificate, or set tls-server-name in the kubeconfig",
  ERR_OSSL_X509_KEY_VALUES_MISMATCH:
    "client-certificate and client-key in the kubeconfig do not match",
  EPROTO: "the server does not speak TLS; if it uses plain HTTP, change the URL to http://",
};

function adviceFor(code: string): string {
  const advice = advices[code];
  return advice === undefined ? "" : `; ${advice}`;
}
