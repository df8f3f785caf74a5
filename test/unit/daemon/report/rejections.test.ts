/** Tests at what times rejected changes are logged and counted. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { ClusterEvent } from "../../../../src/api/event.ts";
import { countBy, Findings } from "../../../../src/daemon/report/findings.ts";
import { rejectionFinding } from "../../../../src/daemon/report/sync-findings.ts";
import type { Rejection } from "../../../../src/reconcile/status/rejection.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";

const begins = "Kernel rejected a change, retrying with back-off";
const ends = "Kernel accepted a change that it had rejected";

let clock: FakeClock;
let log: RecordingLogger;
let events: ClusterEvent[];
let counts: Map<string, number>;
let findings: Findings<Rejection>;

beforeEach(() => {
  clock = new FakeClock();
  log = new RecordingLogger();
  events = [];
  counts = new Map();
  const gauge = {
    set: ({ kind, reason }: Readonly<Record<"kind" | "reason", string>>, count: number): void =>
      void counts.set(`${kind} ${reason}`, count),
  };
  const targets = {
    clock,
    log,
    events: { record: (event: ClusterEvent) => void events.push(event) },
  };
  findings = new Findings<Rejection>(
    targets,
    (one) => rejectionFinding({ clock, nodeName: "node-1" }, one),
    countBy(gauge, ({ subject, reason }) => ({ kind: subject.type, reason })),
  );
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
    findings.replace([rejection("A")]);
    findings.replace([rejection("A", { attempts: 2 })]);
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

  it("is counted by kind of object and reason", () => {
    const link: Rejection = rejection("", { subject: { type: "link", link: "kube-ipvs0" } });
    findings.replace([rejection("A"), rejection("B"), rejection("C", { reason: "exit-4" }), link]);
    assert.deepEqual(
      [...counts],
      [
        ["chain exit-2", 2],
        ["chain exit-4", 1],
        ["link exit-2", 1],
      ],
    );
  });

  it("is reported when it ends, with its attempts and duration", async () => {
    findings.replace([rejection("A")]);
    findings.replace([rejection("A", { attempts: 3 })]);
    await clock.advance(7_040);
    findings.replace([]);
    const { event, keys } = log.lines.at(-1) ?? {};
    assert.deepEqual([event, keys?.["attempts"], keys?.["elapsedSeconds"]], [ends, 3, 7]);
    assert.deepEqual([...counts], [["chain exit-2", 0]]);
    findings.replace([]);
    assert.equal(log.lines.length, 2);
  });
});
