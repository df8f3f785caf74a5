import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";

interface Refused {
  /** Since the last report. */
  count: number;
  reportedAtMs: number;
}

const reportPeriodMs = 60_000;

/** Logs that a Service reached its connection limit, at most once per minute for each Service. */
export class RefusedConnections {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #byService = new Map<string, Refused>();

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#clock = clock;
    this.#log = log;
  }

  note(service: string): void {
    const refused = this.#byService.get(service) ?? {
      count: 0,
      reportedAtMs: Number.NEGATIVE_INFINITY,
    };
    refused.count += 1;
    this.#byService.set(service, refused);
    this.#report(service, refused);
  }

  /** Reports connections that were refused since the last report, and forgets Services without any. */
  sweep(): void {
    for (const [service, refused] of this.#byService) {
      if (refused.count > 0) this.#report(service, refused);
      else if (this.#isDue(refused)) this.#byService.delete(service);
    }
  }

  #report(service: string, refused: Refused): void {
    if (!this.#isDue(refused)) return;
    this.#log.warn(
      "Connection limit reached, closing new TCP connections and the UDP clients idle for longest",
      { service, refused: refused.count },
    );
    refused.count = 0;
    refused.reportedAtMs = this.#clock.monotonicMs();
  }

  #isDue({ reportedAtMs }: Refused): boolean {
    return this.#clock.monotonicMs() - reportedAtMs >= reportPeriodMs;
  }
}
