import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setFor } from "../../../src/plan/sets.ts";
import { isAsKnown } from "../../../src/reconcile/confirm.ts";
import { KnownState } from "../../../src/reconcile/known-state.ts";
import type { SetEntry } from "../../../src/state/set-entry.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";

const entry = "10.96.0.10,tcp:80" as SetEntry;

/** A kernel with one set of this capacity, and what is known of it. */
async function withCapacity(maxElements: number): Promise<[FakeKernel, KnownState]> {
  const [kernel, known] = [new FakeKernel(), new KnownState()];
  const set = { ...setFor("clusterIp", "IPv4"), maxElements };
  kernel.ipSets.put(set, [entry]);
  for (const observed of await kernel.ipSets.listSets()) known.sets.set(observed.name, observed);
  known.setEntries.set(set.name, new Set([entry]));
  return [kernel, known];
}

describe("isAsKnown", () => {
  it("is true for what is there as it is known", async () => {
    assert.equal(await isAsKnown(...(await withCapacity(65_536))), true);
  });

  it("is false for a set that has more room than kube-proxy gives it: a full sync makes it smaller", async () => {
    assert.equal(await isAsKnown(...(await withCapacity(131_072))), false);
  });
});
