import type { RequestFigures, RequestObserver } from "../../api/connection.ts";
import type { Clock } from "../../base/clock.ts";
import type { Metrics } from "../../metrics/prometheus-metrics.ts";

type RequestMetrics = Pick<
  Metrics,
  "apiRequests" | "apiDuration" | "apiRequestSize" | "apiResponseSize"
>;

/** Remembers whether the API server answers, and counts requests where there are metrics. */
export class ApiContact implements RequestObserver {
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #metrics: RequestMetrics | undefined;
  /** `10.0.0.1:6443`; undefined before the first request. */
  host: string | undefined;
  /** Monotonic; undefined: it never answered. */
  answeredAtMs: number | undefined;
  /** The status of the first failure in a row, or `<error>` without an answer; undefined: the last request worked. */
  failing: { readonly sinceMs: number; readonly code: string } | undefined;

  constructor(clock: Pick<Clock, "monotonicMs">, metrics?: RequestMetrics) {
    this.#clock = clock;
    this.#metrics = metrics;
  }

  apiRequestAnswered(method: string, host: string, code: string): void {
    this.#metrics?.apiRequests.inc({ code, method, host });
    // Events are a courtesy: whether one may be written says nothing about what is served.
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
