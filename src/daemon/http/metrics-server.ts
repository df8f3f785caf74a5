import type { Clock } from "../../base/clock.ts";
import type { Config } from "../../config/config.ts";
import { SliMetrics } from "../../metrics/sli-metrics.ts";
import type { HttpAnswer, HttpRequest, HttpResponder } from "./http-listener.ts";
import { jsonAnswer, notFound, textAnswer } from "./pages/answers.ts";
import { DebugPages } from "./pages/debug-pages.ts";
import { type Exposition, healthPage, metricsPage, sliPage } from "./pages/metrics-page.ts";
import { flagzPage, statuszPage } from "./pages/zpages.ts";

/** The configuration that the program publishes. Contains paths to secrets, but no secrets. */
export interface ShownConfig {
  /**
   * The effective configuration, as a KubeProxyConfiguration v1alpha1 with all fields set. Changes when the file is
   * reloaded.
   */
  readonly object: () => object;
  /** All flags by name, with their given or default values. */
  readonly flags: ReadonlyMap<string, string>;
}

export interface MetricsServerDependencies {
  readonly clock: Clock;
  readonly metrics: Exposition;
  readonly shown: ShownConfig;
  readonly setVerbosity: (level: number) => void;
}

/** Only ComponentFlagz and ComponentStatusz are used. */
export type MetricsServerConfig = Pick<Config, "mode" | "enableProfiling" | "featureGates">;

type Page = (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>;

/** Answers requests at the metrics address (port 10249), with the pages that kube-proxy serves there. */
export function metricsResponder(
  dependencies: MetricsServerDependencies,
  options: MetricsServerConfig,
): HttpResponder {
  const pages = pagesOf(dependencies, options);
  const debug = options.enableProfiling ? new DebugPages(dependencies) : undefined;
  return (request) => {
    if (request.path.startsWith("/debug/")) return debug?.answer(request) ?? notFound;
    return pages.get(request.path)?.(request) ?? notFound;
  };
}

function pagesOf(
  { clock, metrics, shown }: MetricsServerDependencies,
  { featureGates, mode }: MetricsServerConfig,
): ReadonlyMap<string, Page> {
  const slis = new SliMetrics();
  const startedAtMs = clock.nowMs();
  const pages = new Map<string, Page>([
    ["/configz", () => jsonAnswer({ "kubeproxy.config.k8s.io": shown.object() })],
    ["/healthz", (request) => healthPage(request, slis)],
    ["/healthz/ping", () => textAnswer("ok")],
    ["/metrics", (request) => metricsPage(metrics, request)],
    ["/metrics/slis", (request) => sliPage(slis, request)],
    ["/proxyMode", () => textAnswer(mode)],
  ]);
  if (featureGates.get("ComponentFlagz") !== false) {
    pages.set("/flagz", (request) => flagzPage(shown.flags, request));
  }
  if (featureGates.get("ComponentStatusz") !== false) {
    const facts = () => ({ startedAtMs, nowMs: clock.nowMs(), paths: [...pages.keys()].sort() });
    pages.set("/statusz", (request) => statuszPage(facts(), request));
  }
  return pages;
}
