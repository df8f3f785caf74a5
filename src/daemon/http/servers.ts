import type { RequestAuthorizer } from "../../api/cluster/request-authorizer.ts";
import type { EventRecorder } from "../../api/event.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import type { Metrics } from "../../metrics/prometheus-metrics.ts";
import { serverFailedEvent } from "../report/events.ts";
import type { ProxyHealth } from "../report/proxy-health.ts";
import { authorizingResponder } from "./authorizing-responder.ts";
import { healthResponder } from "./health-server.ts";
import { HttpListener, type HttpListenerOptions } from "./http-listener.ts";
import { type MetricsServerConfig, metricsResponder, type ShownConfig } from "./metrics-server.ts";
import type { Exposition } from "./pages/metrics-page.ts";

export interface ServerDependencies {
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics & Exposition;
  readonly health: ProxyHealth;
  readonly events: EventRecorder;
  readonly shown: ShownConfig;
  readonly setVerbosity: (level: number) => void;
  /** Required if there is a secure metrics server. */
  readonly authorizer?: Pick<RequestAuthorizer, "access">;
}

type ServerConfig = MetricsServerConfig &
  Pick<
    Config,
    | "nodeName"
    | "healthzBindAddress"
    | "metricsBindAddress"
    | "secureMetrics"
    | "bindAddressHardFail"
  >;

/**
 * Opens the ports of the metrics and health servers. If a port is in use, retries in the background, or rejects if
 * bindAddressHardFail is set. Returns a function that stops the servers within a second.
 */
export async function startServers(
  dependencies: ServerDependencies,
  config: ServerConfig,
): Promise<() => Promise<void>> {
  const { clock, metrics, health, events, authorizer } = dependencies;
  const { nodeName, healthzBindAddress, secureMetrics, bindAddressHardFail } = config;
  const listenerOf = (
    kind: "health" | "metrics",
    options: Pick<HttpListenerOptions, "name" | "address" | "certificate" | "respond">,
  ): HttpListener =>
    new HttpListener(dependencies, {
      ...options,
      isFailureFatal: bindAddressHardFail,
      // As in kube-proxy, only a failure that ends the program causes an Event.
      onFailure: (reason) => {
        if (bindAddressHardFail) events.record(serverFailedEvent(nodeName, kind, reason));
      },
    });
  const respond = metricsResponder(dependencies, config);
  const listeners = [
    listenerOf("metrics", { name: "metrics server", address: config.metricsBindAddress, respond }),
  ];
  if (secureMetrics !== undefined && authorizer !== undefined) {
    listeners.push(
      listenerOf("metrics", {
        name: "secure metrics server",
        address: secureMetrics.address,
        certificate: secureMetrics,
        respond: authorizingResponder(authorizer, respond),
      }),
    );
  }
  if (healthzBindAddress !== undefined) {
    const answer = healthResponder(health, clock, metrics);
    const [name, address] = ["health server", healthzBindAddress] as const;
    listeners.push(listenerOf("health", { name, address, respond: answer }));
  }
  const stop = async (): Promise<void> => {
    await Promise.all(listeners.map((listener) => listener.stop()));
  };
  try {
    for (const listener of listeners) await listener.start();
  } catch (error) {
    await stop();
    throw error;
  }
  return stop;
}
