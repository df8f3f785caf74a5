const series = /^rest_client_requests_total\{([^}]*)\} (\S+)$/gm;

/** Requests that the API server answered with 403, as the daemon's metrics count them: `2 × GET`. Pure. */
export function forbiddenRequests(metrics: string): readonly string[] {
  return [...metrics.matchAll(series)]
    .filter(([, labels = "", count]) => labels.includes('code="403"') && Number(count) > 0)
    .map(([, labels = "", count]) => {
      const method = /method="([^"]*)"/.exec(labels)?.[1] ?? "?";
      return `${count} ${method} requests were answered with 403`;
    });
}
