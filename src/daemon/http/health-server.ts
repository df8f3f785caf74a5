import type { Clock } from "../../base/clock.ts";
import type { Metrics } from "../../metrics/prometheus-metrics.ts";
import type { HealthReport, ProxyHealth } from "../report/proxy-health.ts";
import type { HttpAnswer, HttpResponder } from "./http-listener.ts";
import { notFound } from "./pages/answers.ts";

const headers = { "Content-Type": "application/json", "X-Content-Type-Options": "nosniff" };

/** Go's zero time, which means "never". */
const zeroTime = "0001-01-01T00:00:00Z";

/**
 * Answers requests at the health address (port 10256). /livez reports whether the proxy keeps up with changes. /healthz
 * also reports whether the node is eligible for new traffic. Load balancers and probes read the status code. The body
 * is the same as in kube-proxy 1.33 and newer. /readyz, which exists only in kube-ipvs, reports whether a sync has
 * succeeded since startup and whether syncs keep up. Rollouts wait for it.
 */
export function healthResponder(
  health: ProxyHealth,
  clock: Clock,
  metrics: Pick<Metrics, "healthz" | "livez">,
): HttpResponder {
  return ({ path }) => {
    if (path === "/healthz") {
      const report = health.report();
      const status = report.isHealthy && report.isNodeEligible ? 200 : 503;
      metrics.healthz.inc({ code: status });
      return answer(status, report, clock.nowMs(), { nodeEligible: report.isNodeEligible });
    }
    if (path === "/readyz") return readyAnswer(health.notReadyReason);
    if (path !== "/livez") return notFound;
    const report = health.report();
    const status = report.isHealthy ? 200 : 503;
    metrics.livez.inc({ code: status });
    return answer(status, report, clock.nowMs(), {});
  };
}

function answer(
  status: number,
  report: HealthReport,
  nowMs: number,
  eligibility: { readonly nodeEligible?: boolean },
): HttpAnswer {
  const families = report.families.map(
    ({ family, updatedAtMs, isHealthy }) =>
      [family, { lastUpdated: timeText(updatedAtMs), healthy: isHealthy }] as const,
  );
  const body = {
    // As in kube-proxy, lastUpdated is the current time while the answer is healthy.
    lastUpdated: timeText(status === 200 ? nowMs : report.updatedAtMs),
    currentTime: timeText(nowMs),
    ...eligibility,
    healthy: report.isHealthy,
    ...(families.length === 0 ? {} : { status: Object.fromEntries(families) }),
  };
  return { status, headers, body: JSON.stringify(body) };
}

function readyAnswer(reason: string | undefined): HttpAnswer {
  const isReady = reason === undefined;
  const body = { ready: isReady, ...(isReady ? {} : { reason }) };
  return { status: isReady ? 200 : 503, headers, body: JSON.stringify(body) };
}

function timeText(timeMs: number | undefined): string {
  return timeMs === undefined ? zeroTime : new Date(timeMs).toISOString();
}
