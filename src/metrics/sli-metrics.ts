import { Counter, Gauge, Registry } from "prom-client";

const ping = { name: "ping", type: "healthz" } as const;

/** Service-level indicators that KEP-3466 requires of each component. */
export class SliMetrics {
  readonly #registry = new Registry();
  readonly #healthcheck = new Gauge({
    name: "kubernetes_healthcheck",
    help: "Result of the last check (1 = success)",
    labelNames: ["name", "type"],
    registers: [this.#registry],
  });
  readonly #healthchecks = new Counter({
    name: "kubernetes_healthchecks_total",
    help: "Checks by result",
    labelNames: ["name", "type", "status"],
    registers: [this.#registry],
  });

  /** Called when the metrics server's /healthz has answered. */
  pinged(): void {
    this.#healthcheck.set(ping, 1);
    this.#healthchecks.inc({ ...ping, status: "success" });
  }

  reset(): void {
    this.#registry.resetMetrics();
  }

  exposition(): Promise<string> {
    return this.#registry.metrics();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }
}
