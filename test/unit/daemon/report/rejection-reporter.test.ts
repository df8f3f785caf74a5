/** Tests when rejected changes are logged and counted. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { ClusterEvent } from "../../../../src/api/event.ts";
import { ProxyHealth } from "../../../../src/daemon/report/proxy-health.ts";
import { RejectionReporter } from "../../../../src/daemon/report/rejection-reporter.ts";
import type { Rejection } from "../../../../src/reconcile/status/rejection.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { gaugeOf, silentMetrics } from "../../../support/silent-metrics.ts";

const begins = "Kernel rejected a change, retrying with back-off";
const ends = "Kernel accepted a change that it had rejected";

let clock: FakeClock;
let log: RecordingLogger;
let events: ClusterEvent[];
let counts: Map<string, number>;
let reporter: RejectionReporter;

beforeEach(() => {
  clock = new FakeClock();
  log = new RecordingLogger();
  events = [];
  counts = new Map();
  const refusedObjects = gaugeOf<"refusedObjects">(({ kind, reason }, count) =>
    counts.set(`${kind} ${reason}`, count),
  );
  reporter = new RejectionReporter({
    ...{ clock, log, health: new ProxyHealth(clock, 60_000), nodeName: "node-1" },
    metrics: { ...silentMetrics, refusedObjects },
    events: { record: (event) => void events.push(event) },
  });
});

function rejection(chainName: string, overrides: Partial<Rejection> = {}): Rejection {
  return {
    subject: { type: "chain", family: "IPv4", table: "nat", chainName },
    kind: "chain-write",
    reason: "exit-2",
    error: new Error("no such match"),
    services: ["default/a", "default/b"],
    ...{ sinceMs: 0, attempts: 1, dueMs: 1_000, isDrainEnd: false, isReported: true },
    ...overrides,
  };
}

describe("a rejected change", () => {
  it("is reported once when it begins, with an Event for each Service", () => {
    reporter.report([rejection("A")]);
    reporter.report([rejection("A", { attempts: 2 })]);
    assert.deepEqual(log.lines, [
      {
        level: "error",
        event: begins,
        keys: {
          ...{ change: "chain-write", subject: "IPv4 nat A", service: ["default/a", "default/b"] },
          ...{ reason: "exit-2", err: "no such match" },
        },
      },
    ]);
    assert.equal(events.length, 2);
    assert.deepEqual([...counts], [["chain exit-2", 1]]);
  });

  it("is reported when it ends, with its attempts and duration", async () => {
    reporter.report([rejection("A")]);
    reporter.report([rejection("A", { attempts: 3 })]);
    await clock.advance(7_040);
    reporter.report([]);
    const { event, keys } = log.lines.at(-1) ?? {};
    assert.deepEqual([event, keys?.["attempts"], keys?.["elapsedSeconds"]], [ends, 3, 7]);
    assert.deepEqual([...counts], [["chain exit-2", 0]]);
    reporter.report([]);
    assert.equal(log.lines.length, 2);
  });
});
