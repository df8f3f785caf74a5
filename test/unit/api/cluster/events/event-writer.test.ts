import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { EventWriter } from "../../../../../src/api/cluster/events/event-writer.ts";
import type { ClusterEvent } from "../../../../../src/api/event.ts";
import { FakeClock } from "../../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../../support/recording-logger.ts";
import { ScriptedConnection } from "../scripted-connection.ts";

const minuteMs = 60_000;

const event = (overrides: Partial<ClusterEvent> = {}): ClusterEvent => ({
  type: "Warning",
  reason: "FailedToStartServiceHealthcheck",
  action: "Listen",
  subject: { kind: "Service", namespace: "default", name: "web" },
  note: "port 31000 is taken",
  ...overrides,
});

let clock: FakeClock;
let connection: ScriptedConnection;
let log: RecordingLogger;
let writer: EventWriter;
let answeredCount: number;

beforeEach(() => {
  clock = new FakeClock();
  connection = new ScriptedConnection();
  log = new RecordingLogger();
  answeredCount = 0;
  writer = new EventWriter({ connection, clock, log }, { hostname: "host-1", nodeName: "node-1" });
});

/** Answers the newest request, and waits until its effects are complete. */
async function answer(status: number): Promise<void> {
  connection.latest.answer(status).end();
  await clock.advance(0);
}

/** Answers all pending requests and those that they trigger. */
async function answerAll(): Promise<void> {
  await clock.advance(0);
  for (; answeredCount < connection.requests.length; answeredCount += 1) await answer(200);
}

/** For each request so far: the method, the last part of the path, and the count of a series. */
function sent(): readonly string[] {
  return connection.requests.map(({ path, write }) => {
    const { series } = JSON.parse(write?.body ?? "{}") as { series?: { count: number } };
    const where = path.split("/").at(-1)?.split(".")[0];
    return `${write?.method} ${where}${series === undefined ? "" : ` ×${series.count}`}`;
  });
}

describe("an event", () => {
  it("is created with a unique name", async () => {
    writer.record(event());
    writer.record(event({ reason: "Other" }));
    await clock.advance(0);
    assert.deepEqual(sent(), ["POST events"], "one after another");
    await answer(201);
    await answer(201);
    const names = connection.requests.map(
      ({ write }) => JSON.parse(write?.body ?? "").metadata.name,
    );
    assert.equal(new Set(names).size, 2, String(names));
    const serial = (BigInt(clock.nowMs()) * 1_000_000n).toString(16);
    assert.equal(names[0], `web.${serial}`);
    assert.deepEqual(log.lines, []);
    await writer.stop();
  });

  it("that repeats is reported the second time, and again when the series ends", async () => {
    for (let times = 0; times < 5; times += 1) writer.record(event());
    await clock.advance(0);
    await answer(201);
    await answer(200);
    assert.deepEqual(sent(), ["POST events", "PATCH web ×2"]);
    await clock.advance(6 * minuteMs);
    assert.deepEqual(sent().slice(2), ["PATCH web ×5"]);
    await answer(200);
    writer.record(event());
    await clock.advance(0);
    assert.equal(sent().at(-1), "POST events", "after six minutes of silence it is a new one");
    await answer(201);
    await writer.stop();
    assert.equal(clock.pendingTimers, 0);
  });

  it("that continues is refreshed every half hour", async () => {
    for (let minute = 0; minute < 45; minute += 1) {
      writer.record(event({ note: `minute ${minute}` }));
      await answerAll();
      await clock.advance(minuteMs - 1);
      await answerAll();
      await clock.advance(1);
    }
    const [first, second, third, ...more] = sent();
    assert.deepEqual([first, second], ["POST events", "PATCH web ×2"]);
    assert.match(third ?? "", /^PATCH web ×\d+$/);
    assert.deepEqual(more, []);
    await writer.stop();
  });
  it("is dropped after 25 Events about the same object, but not if it is about another object", async () => {
    for (let index = 0; index < 30; index += 1) writer.record(event({ reason: `Reason${index}` }));
    writer.record(event({ subject: { kind: "Node", namespace: "", name: "node-1" } }));
    await clock.advance(0);
    for (let index = 0; index < 26; index += 1) await answer(201);
    assert.equal(sent().length, 26);
    await writer.stop();
  });
});

describe("an API server with problems", () => {
  it("is retried every ten seconds, twelve times", async () => {
    writer.record(event());
    await clock.advance(0);
    for (let attempt = 1; attempt <= 12; attempt += 1) {
      assert.equal(sent().length, attempt);
      connection.latest.refuse();
      await clock.advance(10_000);
    }
    assert.equal(sent().length, 12);
    const warnings = log.lines.filter(({ level }) => level === "warn");
    assert.deepEqual(
      warnings.map(({ event, keys }) => [event, keys]),
      [["Dropping Event", { reason: "api-server-unreachable", tries: 12 }]],
    );
    await writer.stop();
  });

  it("that does not answer is canceled after ten seconds and retried", async () => {
    writer.record(event());
    await clock.advance(10_000);
    assert.equal(connection.latest.isAborted(), true);
    await clock.advance(10_000);
    assert.equal(sent().length, 2);
    await answer(201);
    await writer.stop();
  });

  it("that forbids Events is reported once with a remedy, and the next Event is tried", async () => {
    for (const reason of ["One", "Two"]) {
      writer.record(event({ reason }));
      await clock.advance(0);
      await answer(403);
    }
    assert.equal(sent().length, 2);
    const warnings = log.lines.filter(({ level }) => level === "warn");
    assert.equal(warnings.length, 1);
    assert.deepEqual(warnings[0]?.keys, {
      reason: "event-refused",
      err: "Cannot POST /apis/events.k8s.io/v1/namespaces/default/events: HTTP 403; a ClusterRole bound to this user must allow create and patch on events in API group events.k8s.io, as system:node-proxier does",
    });
    await writer.stop();
  });

  it("already has the Event if only the response was lost", async () => {
    writer.record(event());
    await clock.advance(0);
    connection.latest.refuse();
    await clock.advance(10_000);
    await answer(409);
    assert.deepEqual(
      log.lines.map(({ level }) => level),
      ["verbose"],
    );
    await writer.stop();
  });

  it("never has more than a thousand Events queued for it", async () => {
    for (let index = 0; index < 1_200; index += 1) {
      writer.record(event({ subject: { kind: "Node", namespace: "", name: `n${index}` } }));
    }
    await clock.advance(0);
    for (let index = 0; index < 1_001; index += 1) await answer(201);
    assert.equal(sent().length, 1_001, "one was in progress");
    await writer.stop();
  });
});

it("when the program stops, queued Events have 300 ms to be sent, and later ones are discarded", async () => {
  writer.record(event());
  writer.record(event({ reason: "Other" }));
  await clock.advance(0);
  const stopped = writer.stop();
  await answer(201);
  assert.equal(sent().length, 2);
  await clock.advance(300);
  await stopped;
  assert.equal(connection.latest.isAborted(), true);
  writer.record(event({ reason: "Late" }));
  await clock.advance(0);
  assert.equal(sent().length, 2);
  assert.equal(clock.pendingTimers, 0);
});
