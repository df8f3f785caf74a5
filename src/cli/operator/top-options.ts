/** The options of `kube-ipvs top` → what it works with. */
import { parseDuration } from "../../base/duration.ts";
import { type TopOptions, topFormats, topSortKeys } from "../../top/options.ts";

/** Shorter ones would show 0 and twice the rate in turn. */
const shortestIntervalMs = 2_000;
const longestIntervalMs = 3_600_000;

/** Throws where an option is none. */
export function topOptions(
  options: ReadonlyMap<string, string>,
  filter: string,
  hasColor: boolean,
): TopOptions {
  const intervalText = options.get("interval") ?? "";
  const intervalMs = parseDuration(intervalText);
  if (intervalMs === undefined) {
    throw new Error(
      `--interval: ${JSON.stringify(intervalText)}: must be a duration string such as "5s"`,
    );
  }
  if (intervalMs < shortestIntervalMs || intervalMs > longestIntervalMs) {
    throw new Error(
      `--interval: ${intervalText}: must be from 2s, since the kernel adds its counters up every 2 s, to 1h`,
    );
  }
  return {
    isBatch: options.get("batch") === "true",
    format: topFormats.find((format) => format === options.get("output")) ?? "table",
    intervalMs,
    intervalText,
    sort: topSortKeys.find((key) => key === options.get("sort")) ?? "connections",
    filter,
    hasColor,
  };
}
