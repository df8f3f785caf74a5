import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { notAbove, quantile, type Row, summarize, verdictOf } from "../../bench/rows.ts";
import { number, tableText, totals } from "../../bench/table.ts";

const row: Row = {
  subject: "kube-ipvs",
  what: "CPU per change",
  unit: "ms",
  value: 4.321,
  kind: "figure",
  target: { text: "< 5 ms", most: 5 },
};

function resultOf(rows: readonly Row[]): Parameters<typeof tableText>[0][number] {
  const startedAt = "2026-01-01T00:00:00Z";
  return {
    name: "change",
    title: "A change",
    version: "0.0.0",
    startedAt,
    elapsedSeconds: 3,
    load: [1, 2],
    rows,
    growth: [],
  };
}

describe("a bench row", () => {
  it("passes up to its target, and misses it above", () => {
    assert.equal(verdictOf({ ...row, value: 5 }), "pass");
    assert.equal(verdictOf({ ...row, value: 5.1 }), "MISS");
    assert.equal(verdictOf({ ...row, target: { text: "≥ 6 ×", least: 6 } }), "MISS");
    const { target: _, ...free } = row;
    assert.equal(verdictOf(free), "");
  });

  it("takes quantiles from the samples, without interpolation", () => {
    const samples = [4, 1, 3, 2];
    assert.deepEqual(
      [0, 0.25, 0.5, 0.95, 1].map((q) => quantile(samples, q)),
      [1, 1, 2, 4, 4],
    );
    assert.deepEqual(summarize(samples), { median: 2, p95: 4, least: 1, most: 4 });
    assert.equal(summarize([]), undefined);
  });

  it("can have the peer's figure as its target", () => {
    const { target: _, ...free } = row;
    const [cpu, memory] = [free, { ...free, what: "memory", value: 50 }];
    const peers = [cpu, memory].map((one) => ({ ...one, subject: "peer", value: 40 }));
    const [kept, judged] = notAbove([cpu, memory], peers, "mem");
    assert.deepEqual(kept, cpu);
    assert.deepEqual(judged, { ...memory, target: { text: "≤ the peer's", most: 40 } });
    assert.deepEqual(notAbove([memory], [], "mem"), [memory]);
  });

  it("is printed as a line of an aligned table", () => {
    const text = tableText(
      [resultOf([row, { ...row, value: 1_234, unit: "", what: "messages" }])],
      false,
    );
    assert.deepEqual(text.split("\n").slice(3), [
      "kube-ipvs  CPU per change   4.32 ms  < 5 ms  pass",
      "kube-ipvs  messages           1,234  < 5 ms  MISS",
    ]);
    assert.match(totals([resultOf([row])]), /1 within target, 0 not/);
  });

  it("shows three significant figures", () => {
    assert.deepEqual([0.1234, 12.34, 123.4, 1_234.5, 7].map(number), [
      "0.12",
      "12.3",
      "123",
      "1,235",
      "7",
    ]);
  });
});
