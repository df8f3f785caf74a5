import type { Clock } from "../../base/clock.ts";
import type { RequestObserver } from "../connection.ts";

export interface MeteredRequest {
  readonly method: string;
  readonly host: string;
  /** A watch is counted, but has no duration and no size. */
  readonly isWatch: boolean;
  readonly sentBytes: number;
}

/** Notifies an observer of one request: how it was answered, how long it took and how much came. */
export class RequestMeter {
  readonly #clock: Clock;
  readonly #observer: RequestObserver | undefined;
  readonly #request: MeteredRequest;
  readonly #startedAtMs: number;
  #receivedBytes = 0;

  constructor(
    { clock, observer }: { readonly clock: Clock; readonly observer?: RequestObserver },
    request: MeteredRequest,
  ) {
    this.#clock = clock;
    this.#observer = observer;
    this.#request = request;
    this.#startedAtMs = clock.monotonicMs();
  }

  answered(status: number): void {
    const { method, host } = this.#request;
    this.#observer?.apiRequestAnswered(method, host, String(status));
  }

  /** No answer came. */
  failed(): void {
    const { method, host } = this.#request;
    this.#observer?.apiRequestAnswered(method, host, "<error>");
    this.#reportEnd({});
  }

  received(bytes: number): void {
    this.#receivedBytes += bytes;
  }

  /** The answer was read, or nobody wants more of it. */
  ended(): void {
    this.#reportEnd({ receivedBytes: this.#receivedBytes });
  }

  #reportEnd(received: { readonly receivedBytes?: number }): void {
    const { method, host, isWatch, sentBytes } = this.#request;
    if (isWatch) return;
    const seconds = (this.#clock.monotonicMs() - this.#startedAtMs) / 1000;
    this.#observer?.apiRequestEnded(method, host, { seconds, sentBytes, ...received });
  }
}
