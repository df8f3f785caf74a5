import type { Clock } from "../../base/clock.ts";
import type { Config } from "../../config/config.ts";
import { SliMetrics } from "../../metrics/sli-metrics.ts";
import type { HttpAnswer, HttpRequest, HttpResponder } from "./http-listener.ts";
import { jsonAnswer, notFound, textAnswer } from "./pages/answers.ts";
import { DebugPages } from "./pages/debug-pages.ts";
import { type Exposition, healthPage, metricsPage, sliPage } from "./pages/metrics-page.ts";
import { flagzPage, statuszPage } from "./pages/zpages.ts";

/** What the program shows of its configuration: no secrets, only where they lie. */
export interface ShownConfig {
  /** A KubeProxyConfiguration v1alpha1 with every field, as it counts now: a reload changes it. */
  readonly object: () => object;
  /** Every flag by its name, with the value given or the default. */
  readonly flags: ReadonlyMap<string, string>;
}

export interface MetricsServerDependencies {
  readonly clock: Clock;
  readonly metrics: Exposition;
  readonly shown: ShownConfig;
  readonly setVerbosity: (level: number) => void;
}

/** Of the feature gates ComponentFlagz and ComponentStatusz count. */
export type MetricsServerConfig = Pick<Config, "mode" | "isProfilingEnabled" | "featureGates">;

type Page = (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>;

/** Answers on the metrics address (10249): what kube-proxy serves there. */
export function metricsResponder(
  dependencies: MetricsServerDependencies,
  options: MetricsServerConfig,
): HttpResponder {
  const pages = pagesOf(dependencies, options);
  const debug = options.isProfilingEnabled ? new DebugPages(dependencies) : undefined;
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
