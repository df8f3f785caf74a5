import type { RequestFigures, RequestObserver } from "../../api/connection.ts";
import type { Clock } from "../../base/clock.ts";

/** Remembers whether the API server answers; everything is passed on to the metrics, where there are any. */
export class ApiContact implements RequestObserver {
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #next: RequestObserver | undefined;
  /** `10.0.0.1:6443`; undefined before the first request. */
  host: string | undefined;
  /** Monotonic; undefined: it never answered. */
  answeredAtMs: number | undefined;
  /** The status of the first failure in a row, or `<error>` without an answer; undefined: the last request worked. */
  failing: { readonly sinceMs: number; readonly code: string } | undefined;

  constructor(clock: Pick<Clock, "monotonicMs">, next?: RequestObserver) {
    this.#clock = clock;
    this.#next = next;
  }

  apiRequestAnswered(method: string, host: string, code: string): void {
    this.#next?.apiRequestAnswered(method, host, code);
    // Events are a courtesy: whether one may be written says nothing about what is served.
    if (method !== "GET") return;
    const nowMs = this.#clock.monotonicMs();
    this.host = host;
    if (code !== "<error>") this.answeredAtMs = nowMs;
    const isFailure = code === "<error>" || code === "401" || code === "403" || /^5/.test(code);
    this.failing = isFailure ? { sinceMs: this.failing?.sinceMs ?? nowMs, code } : undefined;
  }

  apiRequestEnded(method: string, host: string, figures: RequestFigures): void {
    this.#next?.apiRequestEnded(method, host, figures);
  }
}
