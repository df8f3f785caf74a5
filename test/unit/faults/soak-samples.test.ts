import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, it } from "node:test";
import {
  aligned,
  cellsOf,
  findGrowth,
  growthLine,
  type Sample,
  titles,
} from "../../faults/soak-samples.ts";

const base: Sample = {
  minute: 0,
  fault: "no fault",
  repairMs: 900,
  drifts: 0,
  memoryMiB: 100,
  heapMiB: 40,
  files: 30,
  sockets: 12,
  handles: 20,
  timers: 9,
  delayMs: { p50: 10, p99: 12, p999: 20, worst: 50 },
};

/** A run of 40 samples. `change` returns the fields that differ in each one. */
function run(change: (index: number) => Partial<Sample>): readonly Sample[] {
  return Array.from({ length: 40 }, (_, index) => ({ ...base, ...change(index) }));
}

describe("growth in a soak", () => {
  const quiet: readonly (readonly [string, readonly Sample[]])[] = [
    ["in constant figures", run(() => ({}))],
    ["in noise", run((index) => ({ memoryMiB: 100 + (index % 7), timers: 9 + (index % 3) }))],
    ["in a single peak at the end", run((index) => (index === 39 ? { memoryMiB: 300 } : {}))],
    ["during the warm-up", run((index) => ({ memoryMiB: index < 8 ? 60 : 100 }))],
    ["in two samples", [base, { ...base, memoryMiB: 500 }]],
  ];
  for (const [name, samples] of quiet) {
    it(`is not found ${name}`, () => assert.deepEqual(findGrowth(samples), []));
  }

  const growing: readonly (readonly [string, (index: number) => Partial<Sample>, string])[] = [
    ["memory", (index) => ({ memoryMiB: 100 + index }), "memoryMiB grew from 115.0 to 135.0"],
    ["timers", (index) => ({ timers: 9 + index }), "timers grew from 24.0 to 44.0"],
    ["files", (index) => ({ files: 30 + index }), "files grew from 45.0 to 65.0"],
    [
      "repairs",
      (index) => ({ repairMs: 900 + 500 * index }),
      "repairMs grew from 8400.0 to 18400.0",
    ],
  ];
  for (const [name, change, want] of growing) {
    it(`is found in ${name}`, () => assert.deepEqual(findGrowth(run(change)), [want]));
  }

  it("is reported with figures of every kind", () => {
    assert.equal(
      growthLine(run((index) => ({ sockets: index }))),
      "Medians of the second and the last quarter: memoryMiB 100.0 → 100.0, heapMiB 40.0 → 40.0, files 30.0 → 30.0, sockets 15.0 → 35.0, handles 20.0 → 20.0, timers 9.0 → 9.0, repairMs 900.0 → 900.0",
    );
  });
});

describe("a soak", () => {
  it("shows each sample below the titles", () => {
    const sample = { ...base, minute: 1_439.94, drifts: 412, fault: "chain flushed" };
    assert.deepEqual([titles, cellsOf(sample)].map(aligned), [
      " minute  repair ms   drifts  memory MiB  heap MiB    files  sockets  handles   timers  delay p50 ms      p99    p99.9    worst    fault",
      " 1439.9        900      412       100.0      40.0       30       12       20        9          10.0     12.0     20.0       50  chain flushed",
    ]);
  });

  it("may take an hour longer than its duration", () => {
    const target = ["-n", "soak", "MINUTES=1440"];
    const commands = execFileSync("make", target, {
      cwd: join(import.meta.dirname, "../../.."),
      encoding: "utf8",
    });
    const [, seconds] = /--timeout \$\(\( (.*) \)\)/.exec(commands) ?? [];
    assert.equal(seconds, "1440 * 60 + 3600");
  });
});
