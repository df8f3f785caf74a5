import type { RequestFigures, RequestObserver } from "../../api/connection.ts";
import type { Clock } from "../../base/clock.ts";
import type { Metrics } from "../../metrics/prometheus-metrics.ts";

type RequestMetrics = Pick<
  Metrics,
  "apiRequests" | "apiDuration" | "apiRequestSize" | "apiResponseSize"
>;

/** Tracks whether the API server answers. Also counts requests if `metrics` is given. */
export class ApiContact implements RequestObserver {
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #metrics: RequestMetrics | undefined;
  /** The API server's host and port, such as `10.0.0.1:6443`. Undefined before the first request. */
  host: string | undefined;
  /** Monotonic time of the last answer. Undefined if there was none. */
  answeredAtMs: number | undefined;
  /**
   * `sinceMs`: monotonic time of the first of the consecutive failures. `code`: HTTP status of the latest failure, or
   * `<error>` if there was no answer. Undefined if the last request succeeded.
   */
  failing: { readonly sinceMs: number; readonly code: string } | undefined;

  constructor(clock: Pick<Clock, "monotonicMs">, metrics?: RequestMetrics) {
    this.#clock = clock;
    this.#metrics = metrics;
  }

  apiRequestAnswered(method: string, host: string, code: string): void {
    this.#metrics?.apiRequests.inc({ code, method, host });
    // Requests with other methods, such as those for Events, do not show whether objects can be read.
    if (method !== "GET") return;
    const nowMs = this.#clock.monotonicMs();
    this.host = host;
    if (code !== "<error>") this.answeredAtMs = nowMs;
    const isFailure = code === "<error>" || code === "401" || code === "403" || /^5/.test(code);
    this.failing = isFailure ? { sinceMs: this.failing?.sinceMs ?? nowMs, code } : undefined;
  }

  apiRequestEnded(
    verb: string,
    host: string,
    { seconds, sentBytes, receivedBytes }: RequestFigures,
  ): void {
    const labels = { verb, host };
    this.#metrics?.apiDuration.observe(labels, seconds);
    this.#metrics?.apiRequestSize.observe(labels, sentBytes);
    if (receivedBytes !== undefined) this.#metrics?.apiResponseSize.observe(labels, receivedBytes);
  }
}
