import type { ListQuarantine } from "../../api/source.ts";
import type { Logger } from "../../base/log.ts";
import type { Metrics } from "../../metrics/prometheus-metrics.ts";

const events: Readonly<Record<ListQuarantine["outcome"], string>> = {
  held: "List quarantined, it would remove much of what is served",
  confirmed: "Quarantined list confirmed by a second one",
  refuted: "Quarantined list dropped, a second one has what it lacked",
  expired: "Quarantined list applied, no second one came within a minute",
};

/** Reports a quarantined list, and its outcome. */
export function reportListQuarantine(
  { kind, outcome, known, missing }: ListQuarantine,
  { metrics, log }: { readonly metrics: Pick<Metrics, "listQuarantined">; readonly log: Logger },
): void {
  metrics.listQuarantined(kind, outcome);
  const keys = { resource: kind, known, missing, reason: `list-${outcome}` };
  if (outcome === "refuted") log.info(events[outcome], keys);
  else log.warn(events[outcome], keys);
}
