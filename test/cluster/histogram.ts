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

/** Interpolates within a bucket, as Prometheus's histogram_quantile does. Undefined if there are no observations. */
export function quantile(histogram: Histogram, share: number): number | undefined {
  const total = observations(histogram);
  if (total === 0) return undefined;
  const rank = share * total;
  let [lower, below] = [0, 0];
  for (const [bound, count] of histogram.buckets) {
    if (count >= rank && bound !== Number.POSITIVE_INFINITY)
      return count === below ? bound : lower + ((bound - lower) * (rank - below)) / (count - below);
    if (bound !== Number.POSITIVE_INFINITY) lower = bound;
    below = count;
  }
  return lower;
}
