/** Formats traffic series in the Prometheus text format, in steps. Pure. */
import type { MetricRow } from "../../metrics/metric-table.ts";
import type { TrafficRows } from "../../metrics/traffic-table.ts";
import { trafficFields } from "../../state/traffic.ts";
import type { TrafficSeries } from "./traffic-totals.ts";

/** Yields after each line. If `isCounting` is false, the kernel does not update the counters, so they are omitted. */
export function* trafficText(
  rows: TrafficRows,
  series: readonly TrafficSeries[],
  isCounting: boolean,
): Generator<void, string> {
  let text = "";
  const labelTexts = series.map(({ labels }) => labelsText(rows.connections.labels ?? [], labels));
  const write = function* (row: MetricRow, read: (one: TrafficSeries) => number): Generator<void> {
    text += `# HELP ${row.name} ${row.help}\n# TYPE ${row.name} ${row.type}\n`;
    for (const [index, one] of series.entries()) {
      text += `${row.name}${labelTexts[index] ?? ""} ${read(one)}\n`;
      yield;
    }
  };
  if (isCounting) {
    for (const field of trafficFields) yield* write(rows[field], ({ traffic }) => traffic[field]);
  }
  yield* write(rows.activeConnections, ({ activeConnections }) => activeConnections);
  yield* write(rows.inactiveConnections, ({ inactiveConnections }) => inactiveConnections);
  return text;
}

function labelsText(names: readonly string[], values: readonly string[]): string {
  const pairs = names.map((name, index) => `${name}="${escaped(values[index] ?? "")}"`);
  return `{${pairs.join(",")}}`;
}

/** Escapes a label value for the text format. */
function escaped(value: string): string {
  return value.replace(/[\\"\n]/g, (character) => (character === "\n" ? "\\n" : `\\${character}`));
}
