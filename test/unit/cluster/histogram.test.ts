import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { bucketOf, observations, quantile, readHistogram, since } from "../../cluster/histogram.ts";

function page(...counts: readonly number[]): string {
  const bounds = ["0", "0.5", "1", "+Inf"];
  return [
    "# TYPE a_seconds histogram",
    ...counts.map(
      (count, index) => `a_seconds_bucket{ip_family="4",le="${bounds[index]}"} ${count}`,
    ),
    'a_seconds_bucket_other{le="1"} 99',
    "a_seconds_sum 3.5",
  ].join("\n");
}

describe("A metrics histogram", () => {
  it("is the sum of all pages and labels", () => {
    const { buckets } = readHistogram([page(0, 1, 2, 3), page(0, 10, 20, 30)], "a_seconds");
    assert.deepEqual(buckets, [
      [0, 0],
      [0.5, 11],
      [1, 22],
      [Number.POSITIVE_INFINITY, 33],
    ]);
  });

  it("has quantiles for the observations between two readings", () => {
    const [before, after] = [page(0, 100, 100, 100), page(0, 180, 200, 200)];
    const between = since(
      readHistogram([before], "a_seconds"),
      readHistogram([after], "a_seconds"),
    );
    assert.equal(observations(between), 100);
    assert.equal(quantile(between, 0.4), 0.25);
    assert.deepEqual(bucketOf(between, 0.4), [0, 0.5]);
    assert.deepEqual(bucketOf(between, 0.9), [0.5, 1]);
    assert.equal(quantile(between, 0.9), 0.75);
  });

  it("has no quantile above its last bound, and none without observations", () => {
    assert.equal(quantile(readHistogram([page(0, 0, 0, 4)], "a_seconds"), 0.99), 1);
    assert.deepEqual(bucketOf(readHistogram([page(0, 0, 0, 4)], "a_seconds"), 0.99), [
      1,
      Number.POSITIVE_INFINITY,
    ]);
    assert.equal(quantile(readHistogram([], "a_seconds"), 0.5), undefined);
    assert.equal(quantile(readHistogram([page(0, 0, 0, 0)], "a_seconds"), 0.5), undefined);
  });
});
