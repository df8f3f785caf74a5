import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { ServiceName } from "../base/service-name.ts";

interface Refused {
  /** Number of refused connections since the last report. */
  count: number;
  reportedAtMs: number;
}

const reportPeriodMs = 60_000;

export interface RefusedConnectionsContext {
  readonly clock: Clock;
  readonly log: Logger;
  /** Called with the number of a Service's connections refused since the last report. */
  readonly onRefused?: (service: ServiceName, count: number) => void;
}

/** Reports that a Service reached its connection limit, at most once per minute for each Service. */
export class RefusedConnections {
  readonly #parts: RefusedConnectionsContext;
  readonly #byService = new Map<ServiceName, Refused>();

  constructor(parts: RefusedConnectionsContext) {
    this.#parts = parts;
  }

  note(service: ServiceName): void {
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

  #report(service: ServiceName, refused: Refused): void {
    if (!this.#isDue(refused)) return;
    const { log, clock, onRefused = () => {} } = this.#parts;
    log.warn(
      "Connection limit reached, closing new TCP connections and the longest-idle UDP clients",
      { service, refused: refused.count },
    );
    onRefused(service, refused.count);
    refused.count = 0;
    refused.reportedAtMs = clock.monotonicMs();
  }

  #isDue({ reportedAtMs }: Refused): boolean {
    return this.#parts.clock.monotonicMs() - reportedAtMs >= reportPeriodMs;
  }
}
