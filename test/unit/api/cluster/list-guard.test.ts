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

/** A list with one object for each address. */
function list(count: number): JudgedList {
  return { keys: addresses(count), objectCount: count };
}

describe("a list is quarantined", () => {
  const isHeld = (known: number, missing: number, percent: number, objectCount = 1): boolean =>
    isImplausible({ known, missing, objectCount }, percent);

  it("if more than the allowed share is missing", () => {
    assert.equal(isHeld(100, 51, 50), true);
    assert.equal(isHeld(100, 50, 50), false);
    assert.equal(isHeld(100, 21, 20), true);
  });

  it("but not at 100 percent, nor at 0, which disables the guard", () => {
    for (const objectCount of [0, 1]) {
      assert.equal(isHeld(100, 100, 100, objectCount), false);
      assert.equal(isHeld(100, 100, 0, objectCount), false);
    }
  });

  it("but not if fewer than ten addresses are known", () => {
    assert.equal(isHeld(9, 9, 50), false);
    assert.equal(isHeld(10, 10, 50), true);
  });

  it("if it has no objects, however few addresses are known", () => {
    assert.equal(isHeld(1, 1, 50, 0), true);
    assert.equal(isHeld(0, 0, 50, 0), false);
  });

  it("because of missing addresses, whether or not it has additional ones", () => {
    assert.equal(countMissing(addresses(20), addresses(20, 5)), 5);
    assert.equal(countMissing(addresses(20), addresses(0)), 20);
  });
});

/** A guard that records its reports and the lists that it accepts. */
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
  it("applies a normal list immediately", () => {
    const { guard, said } = guardAt(50);
    assert.equal(
      guard.judge(addresses(20), list(19), () => said.push("taken")),
      true,
    );
    assert.deepEqual(said, ["taken"]);
  });

  it("quarantines the first implausible list, and applies the second one", () => {
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

  it("discards the first list if the second one contains the missing objects", async () => {
    const { clock, guard, said } = guardAt(50);
    guard.judge(addresses(20), list(0), () => said.push("first"));
    guard.judge(addresses(20), list(20), () => said.push("second"));
    await clock.advance(100_000);
    assert.deepEqual(said, ["held 20/20", "refuted 0/20", "second"]);
  });

  it("applies the first list after a minute without a second one", async () => {
    const { clock, guard, said } = guardAt(50);
    guard.judge(addresses(20), list(0), () => said.push("first"));
    await clock.advance(59_999);
    assert.deepEqual(said, ["held 20/20"]);
    await clock.advance(1);
    assert.deepEqual(said, ["held 20/20", "expired 20/20", "first"]);
  });

  it("applies no list after it is stopped", async () => {
    const { clock, guard, said } = guardAt(50);
    guard.judge(addresses(20), list(0), () => said.push("first"));
    guard.stop();
    await clock.advance(100_000);
    assert.deepEqual(said, ["held 20/20"]);
  });
});
