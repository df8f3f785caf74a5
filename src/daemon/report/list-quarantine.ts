import type { ListQuarantine } from "../../api/source.ts";
import type { Logger } from "../../base/log.ts";
import type { Metrics } from "../../metrics/metrics.ts";

const events: Readonly<Record<ListQuarantine["outcome"], string>> = {
  held: "A list would take away much of what is served; it waits for a second one",
  confirmed: "A second list takes away as much; it counts",
  refuted: "A second list has what the first one lacked; that one is forgotten",
  expired: "No second list came within a minute; the first one counts",
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
