import type { SliMetrics } from "../../../metrics/sli-metrics.ts";
import type { HttpAnswer, HttpRequest } from "../http-listener.ts";
import { textAnswer } from "./answers.ts";

/** /healthz of the metrics address: this server is alive. The proxy's own health is on the health address. */
export function healthPage({ query }: HttpRequest, slis: SliMetrics): HttpAnswer {
  slis.pinged();
  return textAnswer(query.has("verbose") ? verboseText(query) : "ok");
}

function verboseText(query: URLSearchParams): string {
  const isExcluded = query.getAll("exclude").includes("ping");
  return `[+]ping ${isExcluded ? "excluded: " : ""}ok\nhealthz check passed\n`;
}
