import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { QuickChecks } from "../../../src/daemon/quick-checks.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";

describe("quick checks", () => {
  let clock: FakeClock;
  let log: RecordingLogger;
  let looks: string[];
  let told: string[];

  beforeEach(() => {
    clock = new FakeClock();
    log = new RecordingLogger();
    looks = [];
    told = [];
  });

  function start(
    look: (name: string) => Promise<readonly string[]>,
    rulesMs = 10_000,
  ): QuickChecks {
    const check = (name: string, intervalMs: number) => ({
      name,
      intervalMs,
      look: () => {
        looks.push(`${name} ${clock.monotonicMs() / 1000}`);
        return look(name);
      },
    });
    const onLost = (name: string, lost: readonly string[]): void => {
      told.push(`${name}: ${lost.join(" ")}`);
    };
    const checks = new QuickChecks([check("sets", 5_000), check("rules", rulesMs)], onLost, {
      clock,
      log,
    });
    checks.start();
    return checks;
  }

  it("look each at its own pace", async () => {
    start(async () => []);
    await clock.advance(15_000);
    assert.deepEqual(looks, ["sets 5", "rules 10", "sets 10", "sets 15"]);
    assert.deepEqual(told, []);
  });

  it("tell what is lost", async () => {
    start(async (name) => (name === "rules" ? ["IPv4 nat OUTPUT", "IPv4 nat KUBE-SERVICES"] : []));
    await clock.advance(10_000);
    assert.deepEqual(told, ["rules: IPv4 nat OUTPUT IPv4 nat KUBE-SERVICES"]);
  });

  it("do not look with an interval of 0", async () => {
    start(async () => [], 0);
    await clock.advance(10_000);
    assert.deepEqual(looks, ["sets 5", "sets 10"]);
  });

  const costs: readonly [name: string, costMs: number, looks: readonly string[]][] = [
    ["at their pace while they cost little", 500, ["rules 10", "rules 20.5", "rules 31"]],
    ["a twentieth of the time when they are dear", 1_000, ["rules 10", "rules 31", "rules 52"]],
    ["every third time at least, however dear", 9_000, ["rules 10", "rules 49", "rules 88"]],
  ];
  for (const [name, costMs, wanted] of costs) {
    it(`look ${name}`, async () => {
      start((check) => {
        const cost = check === "rules" ? costMs : 0;
        return new Promise((resolve) => clock.after(cost, () => resolve([])));
      });
      await clock.advance(90_000);
      const found = looks.filter((look) => look.startsWith("rules"));
      assert.deepEqual(found.slice(0, 3), wanted);
    });
  }

  it("go on after a failure, and tell it", async () => {
    start(() => Promise.reject(new Error("Cannot list set headers: EPERM")));
    await clock.advance(10_000);
    assert.deepEqual(looks, ["sets 5", "rules 10", "sets 10"]);
    assert.deepEqual(log.lines[0], {
      level: "warn",
      event: "Cannot check kernel state",
      keys: { state: "sets", err: "Cannot list set headers: EPERM" },
    });
  });

  it("end with stop, also during a look", async () => {
    let finish: (lost: readonly string[]) => void = () => {};
    const checks = start(() => new Promise((resolve) => (finish = resolve)));
    await clock.advance(5_000);
    checks.stop();
    finish(["KUBE-CLUSTER-IP"]);
    await clock.advance(60_000);
    assert.deepEqual([looks, told, clock.pendingTimers], [["sets 5"], [], 0]);
  });
});
