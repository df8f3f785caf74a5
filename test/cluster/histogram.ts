/** A histogram from Prometheus text pages, summed over its other labels and over all pages. Pure. */

export interface Histogram {
  /** The number of observations up to and including each upper bound, by bound in ascending order. */
  readonly buckets: readonly (readonly [bound: number, count: number])[];
}

/** `name`: without `_bucket`. Empty if no page has it. */
export function readHistogram(pages: readonly string[], name: string): Histogram {
  const counts = new Map<number, number>();
  for (const line of pages.join("\n").split("\n")) {
    if (!line.startsWith(`${name}_bucket{`)) continue;
    const [, text = "", value = ""] = /\ble="([^"]+)".*\}\s+(\S+)/.exec(line) ?? [];
    const bound = text === "+Inf" ? Number.POSITIVE_INFINITY : Number(text);
    counts.set(bound, (counts.get(bound) ?? 0) + Number(value));
  }
  return { buckets: [...counts].sort(([a], [b]) => a - b) };
}

/** The observations between two readings. */
export function since(before: Histogram, after: Histogram): Histogram {
  const earlier = new Map(before.buckets);
  return {
    buckets: after.buckets.map(([bound, count]) => [bound, count - (earlier.get(bound) ?? 0)]),
  };
}

export function observations({ buckets }: Histogram): number {
  return buckets.at(-1)?.[1] ?? 0;
}

/** The bounds of the bucket that contains the quantile. Undefined if there are no observations. */
export function bucketOf(
  histogram: Histogram,
  share: number,
): readonly [lower: number, upper: number] | undefined {
  const rank = share * observations(histogram);
  const index = histogram.buckets.findIndex(([, count]) => count >= rank);
  const [upper, count] = histogram.buckets[index] ?? [0, 0];
  return count === 0 ? undefined : [histogram.buckets[index - 1]?.[0] ?? 0, upper];
}

/** Interpolates within a bucket, as Prometheus's histogram_quantile does. Undefined if there are no observations. */
export function quantile(histogram: Histogram, share: number): number | undefined {
  const bucket = bucketOf(histogram, share);
  if (bucket === undefined) return undefined;
  const [lower, upper] = bucket;
  if (upper === Number.POSITIVE_INFINITY) return lower;
  const counts = new Map(histogram.buckets);
  const [below, count] = [counts.get(lower) ?? 0, counts.get(upper) ?? 0];
  const rank = share * observations(histogram);
  return lower + ((upper - lower) * (rank - below)) / (count - below);
}
