import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EventShare } from "../../../../../src/api/cluster/events/event-share.ts";
import type { ClusterEvent } from "../../../../../src/api/event.ts";
import { FakeClock } from "../../../../support/fake-clock.ts";
import { endpointRecord, sliceRecord } from "../../../../support/records.ts";

function about(name: string, isSeenByAllNodes: boolean): ClusterEvent {
  const subject = { kind: "Service", namespace: "default", name } as const;
  return {
    ...{ type: "Warning", reason: "AddressClaimed", action: "ServeAddress", note: "" },
    subject,
    isSeenByAllNodes,
  };
}

const names = (count: number, kind: string): readonly string[] =>
  Array.from({ length: count }, (_, index) => `${kind}-${index}`);

function sliceOn(nodes: readonly string[]): ReturnType<typeof sliceRecord> {
  return sliceRecord(nodes.map((nodeName) => endpointRecord("10.0.0.1", { nodeName })));
}

/** A cluster with this number of nodes, each with its share. */
function cluster(nodeCount: number): {
  readonly clock: FakeClock;
  readonly shares: readonly EventShare[];
} {
  const clock = new FakeClock();
  const nodes = names(nodeCount, "node");
  const slice = sliceOn(nodes);
  const shares = nodes.map((nodeName) => {
    const share = new EventShare(clock, nodeName);
    share.noteSlice(undefined, slice);
    return share;
  });
  return { clock, shares };
}

/** Number of nodes that write each of these events. */
function writers(shares: readonly EventShare[], events: readonly ClusterEvent[]): number[] {
  const counts = events.map(() => 0);
  for (const share of shares) {
    for (const [index, event] of events.entries()) {
      if (share.take(event)) counts[index] = (counts[index] ?? 0) + 1;
    }
  }
  return counts;
}

const sum = (counts: readonly number[]): number => counts.reduce((one, other) => one + other, 0);

describe("the share of Events that a node writes", () => {
  it("is every Event in a small cluster", () => {
    const { shares } = cluster(5);
    const events = names(10, "svc").map((name) => about(name, true));
    assert.deepEqual(
      writers(shares, events),
      events.map(() => 5),
    );
  });

  it("leaves an Event that all 600 nodes could write to a few of them, which differ by Event", () => {
    const { shares } = cluster(600);
    const counts = names(20, "svc").map((name) => sum(writers(shares, [about(name, true)])));
    assert.ok(Math.min(...counts) >= 1 && Math.max(...counts) <= 20, String(counts));
    const writing = shares.filter((share, index) => index < 100 && !share.take(about("x", false)));
    assert.ok(writing.length > 10, "different nodes wrote");
  });

  it("limits what 600 nodes write about 200 faulty Services, immediately and later", async () => {
    const { clock, shares } = cluster(600);
    for (const isSeenByAllNodes of [true, false]) {
      const events = names(200, "svc").map((name) => about(name, isSeenByAllNodes));
      assert.ok(sum(writers(shares, events)) <= 600);
      await clock.advance(3_600_000);
    }
    let written = sum(writers(shares, [about("first", false)]));
    assert.equal(written, 600);
    for (let minute = 0; minute < 10; minute += 1) {
      await clock.advance(60_000);
      written += sum(writers(shares, [about(`later-${minute}`, false)]));
    }
    // Ten events per second for the whole cluster.
    assert.equal(written, 600 + 10 * 600);
  });

  it("includes every Event about a Node", () => {
    const [share = new EventShare(new FakeClock(), "")] = cluster(20).shares;
    const starting = {
      ...about("node-1", true),
      subject: { kind: "Node", namespace: "", name: "n" },
    };
    for (let times = 0; times < 50; times += 1) {
      assert.equal(share.take(starting as ClusterEvent), true);
    }
  });

  it("grows again when nodes are removed", async () => {
    const clock = new FakeClock();
    const share = new EventShare(clock, "node-0");
    const many = sliceOn(names(1_000, "node"));
    share.noteSlice(undefined, many);
    share.noteSlice(undefined, sliceOn(["node-0"]));
    assert.equal(share.take(about("a", false)), true);
    assert.equal(share.take(about("b", false)), false);
    share.noteSlice(many, undefined);
    await clock.advance(100_000);
    for (let index = 0; index < 25; index += 1) {
      assert.equal(share.take(about(`c-${index}`, false)), true);
    }
    assert.equal(share.take(about("d", false)), false);
  });
});
