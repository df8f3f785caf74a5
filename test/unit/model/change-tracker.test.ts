import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ChangeTracker } from "../../../src/model/change-tracker.ts";
import { endpointRecord, sliceRecord } from "../../support/records.ts";

/** A slice with a change that began at this time. */
function slice(
  timeMs: number | undefined,
  overrides: Partial<ReturnType<typeof sliceRecord>> = {},
): ReturnType<typeof sliceRecord> {
  const triggered = timeMs === undefined ? {} : { triggeredAtMs: timeMs };
  return { ...sliceRecord([endpointRecord("10.244.2.9")]), ...triggered, ...overrides };
}

describe("the start times of changes", () => {
  it("are returned once, by family, and separately for both families of a Service", () => {
    const tracker = new ChangeTracker(1_000);
    tracker.noteSlice(undefined, slice(2_000));
    tracker.noteSlice(slice(2_000), slice(3_000));
    tracker.noteSlice(undefined, slice(4_000, { name: "default/a-6", family: "IPv6" }));
    assert.deepEqual(tracker.take().triggers, [
      { family: "IPv4", timeMs: 2_000 },
      { family: "IPv4", timeMs: 3_000 },
      { family: "IPv6", timeMs: 4_000 },
    ]);
    assert.deepEqual(tracker.take().triggers, []);
  });

  it("before startup, and unknown ones, are ignored", () => {
    const tracker = new ChangeTracker(1_000);
    tracker.noteSlice(undefined, slice(999));
    tracker.noteSlice(undefined, slice(undefined, { name: "default/other" }));
    assert.deepEqual(tracker.take().triggers, []);
  });

  it("are dropped for the Service and family of a removed slice", () => {
    const tracker = new ChangeTracker(1_000);
    const six = slice(4_000, { name: "default/a-6", family: "IPv6" });
    tracker.noteSlice(undefined, slice(2_000));
    tracker.noteSlice(undefined, six);
    tracker.noteSlice(slice(2_000), undefined);
    assert.deepEqual(tracker.take().triggers, [{ family: "IPv6", timeMs: 4_000 }]);
  });
});
