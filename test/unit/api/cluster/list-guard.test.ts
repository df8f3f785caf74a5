import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  countMissing,
  isImplausible,
  type JudgedList,
  ListGuard,
} from "../../../../src/api/cluster/list-guard.ts";
import type { IpAddress } from "../../../../src/base/ip.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { ip } from "../../../support/records.ts";

function addresses(count: number, first = 0): ReadonlySet<IpAddress> {
  return new Set(Array.from({ length: count }, (_, index) => ip(`10.0.0.${first + index}`)));
}

/** A list with an object for each address. */
function list(count: number): JudgedList {
  return { keys: addresses(count), objectCount: count };
}

describe("a list is quarantined", () => {
  const isHeld = (known: number, missing: number, percent: number, objectCount = 1): boolean =>
    isImplausible({ known, missing, objectCount }, percent);

  it("when more than the share is missing", () => {
    assert.equal(isHeld(100, 51, 50), true);
    assert.equal(isHeld(100, 50, 50), false);
    assert.equal(isHeld(100, 21, 20), true);
  });

  it("not at 100 percent, not at 0, which turns the guard off", () => {
    for (const objectCount of [0, 1]) {
      assert.equal(isHeld(100, 100, 100, objectCount), false);
      assert.equal(isHeld(100, 100, 0, objectCount), false);
    }
  });

  it("not where fewer than ten addresses are known", () => {
    assert.equal(isHeld(9, 9, 50), false);
    assert.equal(isHeld(10, 10, 50), true);
  });

  it("when it has no object at all, however few addresses are known", () => {
    assert.equal(isHeld(1, 1, 50, 0), true);
    assert.equal(isHeld(0, 0, 50, 0), false);
  });

  it("by what it lacks, whatever it has besides", () => {
    assert.equal(countMissing(addresses(20), addresses(20, 5)), 5);
    assert.equal(countMissing(addresses(20), addresses(0)), 20);
  });
});

/** A guard that writes down what it says and which lists count. */
function guardAt(percent: number): {
  readonly clock: FakeClock;
  readonly guard: ListGuard;
  readonly said: string[];
} {
  const clock = new FakeClock();
  const said: string[] = [];
  const onQuarantine = ({
    outcome,
    known,
    missing,
  }: {
    outcome: string;
    known: number;
    missing: number;
  }): void => void said.push(`${outcome} ${missing}/${known}`);
  return { clock, guard: new ListGuard({ clock, percent, onQuarantine }), said };
}

describe("a list guard", () => {
  it("lets an everyday list count at once", () => {
    const { guard, said } = guardAt(50);
    assert.equal(
      guard.judge(addresses(20), list(19), () => said.push("taken")),
      true,
    );
    assert.deepEqual(said, ["taken"]);
  });

  it("quarantines the first such list, and lets the second count", () => {
    const { guard, said } = guardAt(50);
    assert.equal(
      guard.judge(addresses(20), list(0), () => said.push("first")),
      false,
    );
    assert.equal(
      guard.judge(addresses(20), list(1), () => said.push("second")),
      true,
    );
    assert.deepEqual(said, ["held 20/20", "confirmed 19/20", "second"]);
  });

  it("forgets the first one when the second has what it lacked", async () => {
    const { clock, guard, said } = guardAt(50);
    guard.judge(addresses(20), list(0), () => said.push("first"));
    guard.judge(addresses(20), list(20), () => said.push("second"));
    await clock.advance(100_000);
    assert.deepEqual(said, ["held 20/20", "refuted 0/20", "second"]);
  });

  it("lets the first one count after a minute without a second", async () => {
    const { clock, guard, said } = guardAt(50);
    guard.judge(addresses(20), list(0), () => said.push("first"));
    await clock.advance(59_999);
    assert.deepEqual(said, ["held 20/20"]);
    await clock.advance(1);
    assert.deepEqual(said, ["held 20/20", "expired 20/20", "first"]);
  });

  it("lets nothing count after the stop", async () => {
    const { clock, guard, said } = guardAt(50);
    guard.judge(addresses(20), list(0), () => said.push("first"));
    guard.stop();
    await clock.advance(100_000);
    assert.deepEqual(said, ["held 20/20"]);
  });
});
