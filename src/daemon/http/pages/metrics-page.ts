import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { SliMetrics } from "../../../metrics/sli-metrics.ts";
import type { HttpAnswer, HttpRequest } from "../http-listener.ts";
import { textAnswer } from "./answers.ts";

/** Provides the text for a scrape. */
export interface Exposition {
  exposition(): Promise<string>;
  readonly contentType: string;
}

const gzipText = promisify(gzip);

/** /metrics, compressed with gzip if the scraper accepts it. */
export async function metricsPage(
  metrics: Exposition,
  { acceptsGzip }: Pick<HttpRequest, "acceptsGzip">,
): Promise<HttpAnswer> {
  const body = await metrics.exposition();
  const headers = { "Content-Type": metrics.contentType };
  if (!acceptsGzip) return { status: 200, headers, body };
  const zipped = { ...headers, "Content-Encoding": "gzip" };
  return { status: 200, headers: zipped, body: await gzipText(body) };
}

/** /metrics/slis: metrics of the checks behind /healthz. DELETE resets them. */
export async function sliPage(slis: SliMetrics, request: HttpRequest): Promise<HttpAnswer> {
  if (request.method !== "DELETE") return await metricsPage(slis, request);
  slis.reset();
  return textAnswer("metrics reset\n");
}

/**
 * /healthz at the metrics address shows only that the metrics server responds. The proxy's health is served at the
 * health address.
 */
export function healthPage({ query }: HttpRequest, slis: SliMetrics): HttpAnswer {
  slis.pinged();
  return textAnswer(query.has("verbose") ? verboseText(query) : "ok");
}

function verboseText(query: URLSearchParams): string {
  const isExcluded = query.getAll("exclude").includes("ping");
  return `[+]ping ${isExcluded ? "excluded: " : ""}ok\nhealthz check passed\n`;
}
