import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { NotReadyTaint } from "../../../../src/api/cluster/not-ready-taint.ts";
import type { NodeRecord } from "../../../../src/api/objects.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { ScriptedConnection } from "./scripted-connection.ts";

let clock: FakeClock;
let connection: ScriptedConnection;
let log: RecordingLogger;
let taint: NotReadyTaint;

beforeEach(() => {
  clock = new FakeClock();
  connection = new ScriptedConnection();
  log = new RecordingLogger();
  taint = new NotReadyTaint({ connection, clock, log }, "node-1");
});

function nodeWith(...notReadyTaints: readonly number[]): NodeRecord {
  const record = { name: "node-1", addresses: [], podCidrs: [], isEligible: true };
  return notReadyTaints.length === 0 ? record : { ...record, notReadyTaints };
}

/** Answers the newest request, and waits until its effects are complete. */
async function answer(status: number): Promise<void> {
  await clock.advance(0);
  connection.latest.answer(status).end();
  await clock.advance(0);
}

function events(): readonly string[] {
  return log.lines.map(({ event }) => event);
}

describe("the taint kube-ipvs/not-ready", () => {
  it("is removed after the first sync, by a patch that fails if the taints changed", async () => {
    taint.noteNode(nodeWith(1, 3));
    await clock.advance(60_000);
    assert.equal(connection.requests.length, 0);
    taint.noteReady();
    await answer(200);
    const [{ path, write } = {}] = connection.requests;
    assert.equal(
      `${write?.method} ${path} ${write?.contentType}`,
      "PATCH /api/v1/nodes/node-1 application/json-patch+json",
    );
    assert.deepEqual(JSON.parse(write?.body ?? ""), [
      { op: "test", path: "/spec/taints/3/key", value: "kube-ipvs/not-ready" },
      { op: "remove", path: "/spec/taints/3" },
      { op: "test", path: "/spec/taints/1/key", value: "kube-ipvs/not-ready" },
      { op: "remove", path: "/spec/taints/1" },
    ]);
    taint.noteReady();
    taint.noteNode(nodeWith());
    await clock.advance(3_600_000);
    assert.equal(connection.requests.length, 1);
    assert.deepEqual(events(), ["Removed taint from Node"]);
  });

  it("costs no request if the Node has none", async () => {
    taint.noteReady();
    taint.noteNode(nodeWith());
    taint.noteNode(undefined);
    await clock.advance(60_000);
    assert.equal(connection.requests.length, 0);
  });

  it("is removed again if it is added while Services are being served", async () => {
    taint.noteReady();
    taint.noteNode(nodeWith(0));
    await answer(200);
    taint.noteNode(nodeWith());
    taint.noteNode(nodeWith(0));
    await answer(200);
    assert.equal(connection.requests.length, 2);
  });

  it("is removed again if it is added before the answer to the patch arrives", async () => {
    taint.noteReady();
    taint.noteNode(nodeWith(0));
    await clock.advance(0);
    taint.noteNode(nodeWith());
    taint.noteNode(nodeWith(1));
    await answer(200);
    assert.equal(connection.requests.length, 2);
    assert.match(connection.latest.write?.body ?? "", /"\/spec\/taints\/1"/);
  });

  for (const status of [409, 422]) {
    it(`is removed at its new position a second after a conflict (${status}), which is not a problem`, async () => {
      taint.noteReady();
      taint.noteNode(nodeWith(0));
      await answer(status);
      taint.noteNode(nodeWith(2));
      assert.equal(taint.problem, undefined);
      await clock.advance(1_000);
      assert.match(connection.latest.write?.body ?? "", /"\/spec\/taints\/2"/);
      await answer(200);
      assert.deepEqual(events(), ["Removed taint from Node"]);
    });
  }

  it("is retried every ten seconds without permission to patch nodes, and reported once", async () => {
    taint.noteReady();
    taint.noteNode(nodeWith(0));
    await answer(403);
    const { sinceMs } = taint.problem ?? {};
    await clock.advance(10_000);
    await answer(403);
    assert.equal(connection.requests.length, 2);
    assert.equal(taint.problem?.sinceMs, sinceMs);
    assert.match(
      taint.problem?.message ?? "",
      /PATCH \/api\/v1\/nodes\/node-1: HTTP 403; .* patch of nodes/,
    );
    assert.deepEqual(events(), ["Cannot remove taint from Node, retrying"]);
    await clock.advance(10_000);
    await answer(200);
    assert.equal(taint.problem, undefined);
  });

  it("is retried if the API server does not answer", async () => {
    taint.noteReady();
    taint.noteNode(nodeWith(0));
    await clock.advance(0);
    connection.latest.refuse();
    await clock.advance(10_000);
    assert.match(taint.problem?.message ?? "", /Cannot reach the API server/);
    assert.equal(connection.requests.length, 2);
    await clock.advance(20_000);
    assert.equal(connection.requests.length, 3, "an unanswered request ends after ten seconds");
  });

  it("is not retried after the Node was deleted or the program stops", async () => {
    taint.noteReady();
    taint.noteNode(nodeWith(0));
    await answer(500);
    taint.noteNode(undefined);
    await clock.advance(60_000);
    taint.noteNode(nodeWith(0));
    await clock.advance(0);
    assert.equal(connection.requests.length, 2);
    taint.stop();
    await clock.advance(60_000);
    assert.equal(connection.requests.length, 2);
  });
});
