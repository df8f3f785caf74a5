import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SyncHistory } from "../../../../src/daemon/report/sync-history.ts";
import type { FoundDrift, SyncReport } from "../../../../src/reconcile/report.ts";
import type { Rejection } from "../../../../src/reconcile/status/rejection.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { ip } from "../../../support/records.ts";

function drift(number: number): FoundDrift {
  const address = ip(`10.96.${number >> 8}.${number & 255}`);
  const states = { before: "present", after: "absent" };
  return { kind: "address", subject: { type: "address", address }, action: "repair", ...states };
}

function rejection(module: string, attempts = 1): Rejection {
  return {
    ...{ subject: { type: "module", module }, kind: "module-load", reason: "ENOENT" },
    ...{ error: new Error("no such module"), services: [], sinceMs: 0, attempts },
    ...{ dueMs: 1_000, isDrainEnd: false, isReported: true },
  };
}

function report(drifts: readonly FoundDrift[], rejections: readonly Rejection[] = []): SyncReport {
  const parts = { failures: [], manualWeights: [], reconcileConflicts: [], foreignServers: [] };
  return {
    drifts,
    rejections,
    possiblyOwned: [],
    conflicts: [],
    ...parts,
  } as unknown as SyncReport;
}

const sync = { isFull: true, elapsedMs: 1 };

describe("the history of syncs", () => {
  it("has the beginning and the end of each rejection once, with their times", async () => {
    const clock = new FakeClock();
    const history = new SyncHistory(clock);
    const startMs = clock.nowMs();
    history.noteSync(report([], [rejection("a")]), sync);
    await clock.advance(1_000);
    history.noteSync(report([], [rejection("a", 2), rejection("b")]), sync);
    await clock.advance(1_000);
    history.noteSync(report([], [rejection("b", 2)]), sync);
    history.noteSync(report([]), sync);
    assert.deepEqual(
      history.events.map(({ timeMs, event, subject, detail }) => [
        timeMs - startMs,
        event,
        subject,
        detail,
      ]),
      [
        [0, "rejected", "a", "ENOENT: no such module"],
        [1_000, "rejected", "b", "ENOENT: no such module"],
        [2_000, "rejection-ended", "a", "ENOENT: no such module"],
        [2_000, "rejection-ended", "b", "ENOENT: no such module"],
      ],
    );
  });

  it("keeps the last 500 events, and counts all drifts", () => {
    const history = new SyncHistory(new FakeClock());
    history.noteSync(report([drift(0)]), sync);
    history.noteSync(report(Array.from({ length: 600 }, (_, index) => drift(index + 1))), sync);
    history.noteSync(report([drift(700)]), sync);
    assert.equal(history.driftCount, 602);
    assert.equal(history.events.length, 500);
    assert.equal(history.events[0]?.subject, "10.96.0.102");
    assert.deepEqual(
      [history.lastDrift?.subject, history.lastDrift?.detail],
      ["10.96.2.188", "repair"],
    );
  });
});
