import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { ServiceName } from "../../../../src/base/service-name.ts";
import type { AskedWeight } from "../../../../src/daemon/weights/ask-weight.ts";
import { WeightAnswers } from "../../../../src/daemon/weights/weight-answers.ts";
import type { WeightRequest } from "../../../../src/plan/weight-requests.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { ip } from "../../../support/records.ts";

const page = { port: 8080, path: "/weight" };

let clock: FakeClock;
let periodMs: number;
let offset: number;
let isPlanned: boolean;
let asked: string[];
let changes: (readonly string[])[];
let counts: readonly number[];
let kept: readonly (readonly [string, number])[];
/** Answers by address. Other endpoints do not answer. */
let weights: Record<string, number>;

beforeEach(() => {
  clock = new FakeClock();
  [periodMs, offset, isPlanned] = [10_000, 0, true];
  [asked, changes, counts, kept, weights] = [[], [], [], [], {}];
});

function build(recalled: Readonly<Record<string, number>> = {}, isReadOnly = false): WeightAnswers {
  return new WeightAnswers({
    clock,
    log: new RecordingLogger(),
    isReadOnly,
    isPlanned: () => isPlanned,
    periodMs: () => periodMs,
    random: () => offset,
    ask: ({ address }): Promise<AskedWeight> => {
      asked.push(address);
      const weight = weights[address];
      return Promise.resolve(weight === undefined ? { problem: "status 500" } : { weight });
    },
    record: {
      recalled: new Map(Object.entries(recalled)),
      keep: (read) => {
        kept = read();
      },
    },
    onChange: (services) => void changes.push(services),
    onCounts: (...both) => {
      counts = both;
    },
  });
}

function requests(...addresses: readonly string[]): readonly WeightRequest[] {
  return addresses.map((address) => ({ ...page, address: ip(address) }));
}

function note(answers: WeightAnswers, service: ServiceName, ...addresses: readonly string[]): void {
  answers.note({
    service,
    family: "IPv4",
    servicePorts: [],
    weightRequests: requests(...addresses),
  });
}

describe("answers about weights", () => {
  it("are asked for once per period, and reported together", async () => {
    const answers = build();
    weights = { "10.0.0.1": 10, "10.0.0.2": 90 };
    note(answers, "default/web", "10.0.0.1", "10.0.0.2");
    await clock.advance(9_900);
    assert.deepEqual(asked, ["10.0.0.1", "10.0.0.2"]);
    assert.deepEqual(changes, [["default/web"]]);
    assert.deepEqual(answers.answerOf("default/web", ip("10.0.0.2")), { weight: 90 });
    assert.deepEqual(counts, [2, 0]);
    assert.deepEqual(kept, [
      ["default/web 10.0.0.1", 10],
      ["default/web 10.0.0.2", 90],
    ]);
    await clock.advance(10_000);
    assert.equal(asked.length, 4);
    assert.equal(changes.length, 1, "the answers are the same");
  });

  it("remain valid until three requests in a row have failed", async () => {
    const answers = build();
    weights = { "10.0.0.1": 10 };
    note(answers, "default/web", "10.0.0.1");
    await clock.advance(5_000);
    weights = {};
    await clock.advance(2 * periodMs);
    assert.deepEqual(answers.answerOf("default/web", ip("10.0.0.1")), { weight: 10 });
    await clock.advance(periodMs);
    assert.deepEqual(answers.answerOf("default/web", ip("10.0.0.1")), { problem: "status 500" });
    assert.equal(answers.stateOf("default/web", ip("10.0.0.1")), "no-answer");
    assert.equal(changes.length, 2);
    assert.deepEqual([counts, kept], [[0, 1], []]);
  });

  it("change a Service's plan at most once per period", async () => {
    const answers = build();
    const many = Array.from({ length: 300 }, (_, index) => `10.0.${index >> 8}.${index & 255}`);
    note(answers, "default/web", ...many);
    for (let turn = 0; turn < 300; turn++) {
      for (const address of many) weights[address] = turn % 97;
      await clock.advance(100);
    }
    assert.ok(changes.length >= 3 && changes.length <= 4, `${changes.length}`);
  });

  it("are asked for at most 100 times per second, and namespaces take turns", async () => {
    const answers = build();
    const many = Array.from({ length: 5_000 }, (_, index) => `10.1.${index >> 8}.${index & 255}`);
    note(answers, "hostile/web", ...many);
    await clock.advance(1_000);
    assert.equal(asked.length, 100);
    note(answers, "default/web", "10.0.0.1");
    await clock.advance(100);
    assert.ok(asked.slice(100).includes("10.0.0.1"));
    await clock.advance(60_000);
    const own = asked.filter((address) => address === "10.0.0.1").length;
    assert.ok(own >= 6, `${own} requests`);
    assert.equal(asked.length, 100 + 10 + 6_000);
  });

  it("are forgotten with their endpoints, Services and annotations", async () => {
    const answers = build({ "default/web 10.0.0.1": 7 });
    weights = { "10.0.0.1": 10, "10.0.0.2": 90 };
    note(answers, "default/web", "10.0.0.1", "10.0.0.2");
    await clock.advance(1_000);
    note(answers, "default/web", "10.0.0.2");
    assert.equal(answers.answerOf("default/web", ip("10.0.0.1")), undefined);
    note(answers, "default/web");
    assert.equal(answers.answerOf("default/web", ip("10.0.0.2")), undefined);
    await clock.advance(1_000);
    assert.deepEqual([counts, kept], [[0, 0], []]);
    asked = [];
    await clock.advance(60_000);
    assert.deepEqual(asked, []);
    assert.equal(clock.pendingTimers, 0);
  });

  it("of an earlier run stay recorded until all Services have been planned", async () => {
    isPlanned = false;
    const answers = build({ "default/web 10.0.0.1": 7, "default/later 10.0.0.2": 8 });
    note(answers, "default/web", "10.0.0.1");
    await clock.advance(100);
    assert.deepEqual(new Map(kept).get("default/later 10.0.0.2"), 8);
    isPlanned = true;
    weights = { "10.0.0.1": 9 };
    await clock.advance(2 * periodMs);
    assert.deepEqual(kept, [["default/web 10.0.0.1", 9]]);
  });

  it("of an earlier run apply until the first answer, and a read-only run uses no others", async () => {
    const answers = build({ "default/web 10.0.0.1": 7 }, true);
    assert.deepEqual(answers.answerOf("default/web", ip("10.0.0.1")), { weight: 7 });
    note(answers, "default/web", "10.0.0.1");
    assert.deepEqual(answers.answerOf("default/web", ip("10.0.0.1")), { weight: 7 });
    await clock.advance(60_000);
    assert.deepEqual(asked, []);
  });

  it("are asked for in time, although the page of another Service in the namespace keeps changing", async () => {
    offset = 0.5;
    const answers = build();
    note(answers, "default/web", "10.0.0.1");
    note(answers, "default/other", "10.0.0.2");
    for (let turn = 0; turn < 20; turn++) {
      const [request] = requests("10.0.0.1");
      if (request === undefined) throw new Error("no request");
      answers.note({
        ...{ service: "default/web", family: "IPv4", servicePorts: [] },
        weightRequests: [{ ...request, path: `/weight/${turn}` }],
      });
      await clock.advance(1_000);
    }
    assert.ok(asked.includes("10.0.0.2"));
  });

  it("are asked for sooner if the period becomes shorter", async () => {
    periodMs = 3_600_000;
    const answers = build();
    note(answers, "default/web", "10.0.0.1");
    await clock.advance(1_000);
    weights = { "10.0.0.1": 10 };
    periodMs = 10_000;
    await clock.advance(20_000);
    assert.equal(asked.length, 3);
    assert.equal(changes.length, 1);
  });

  it("are no longer asked for after the run", async () => {
    const answers = build();
    note(answers, "default/web", "10.0.0.1");
    answers.stop();
    note(answers, "default/web", "10.0.0.2");
    await clock.advance(60_000);
    assert.deepEqual(asked, []);
    assert.equal(clock.pendingTimers, 0);
  });
});
