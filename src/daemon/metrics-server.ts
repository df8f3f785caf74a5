import { promisify } from "node:util";
import { gzip } from "node:zlib";
import {
  type HttpAnswer,
  type HttpRequest,
  type HttpResponder,
  notFound,
} from "./http-listener.ts";

/** Where the text of a scrape comes from. */
export interface Exposition {
  exposition(): Promise<string>;
  readonly contentType: string;
}

const gzipText = promisify(gzip);

/** Answers on the metrics address (10249): /metrics, /proxyMode, /healthz. */
export function metricsResponder(metrics: Exposition): HttpResponder {
  return (request) => {
    switch (request.path) {
      case "/metrics":
        return scrape(metrics, request);
      case "/proxyMode":
        return text("ipvs");
      case "/healthz":
        return text(request.query.has("verbose") ? verboseHealth(request.query) : "ok");
      case "/healthz/ping":
        return text("ok");
      default:
        return notFound;
    }
  };
}

async function scrape(metrics: Exposition, { acceptsGzip }: HttpRequest): Promise<HttpAnswer> {
  const body = await metrics.exposition();
  const headers = { "Content-Type": metrics.contentType };
  if (!acceptsGzip) return { status: 200, headers, body };
  const zipped = { ...headers, "Content-Encoding": "gzip" };
  return { status: 200, headers: zipped, body: await gzipText(body) };
}

/** The liveness of this server alone; the proxy's own health is on the health address. */
function verboseHealth(query: URLSearchParams): string {
  const isExcluded = query.getAll("exclude").includes("ping");
  return `[+]ping ${isExcluded ? "excluded: " : ""}ok\nhealthz check passed\n`;
}

function text(body: string): HttpAnswer {
  const headers = {
    "Content-Type": "text/plain; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
  };
  return { status: 200, headers, body };
}
