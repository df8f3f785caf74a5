/**
 * Runs the random walks of test/unit/daemon in IPVS mode, with the built program on the real kernel. Each walk has its
 * own network namespace and is compared with a fresh start whenever it settles.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { withNetworkNamespace } from "../support/netns/network-namespace.ts";
import { foundWalks } from "../support/random-walk/found-walks.ts";
import { LabWalkNode } from "../support/random-walk/lab-walk-node.ts";
import { runWalk } from "../support/random-walk/run-walk.ts";
import { type Walk, walkIn, walkLength, walkOf } from "../support/random-walk/walk-step.ts";
import { isLong, seeds } from "../support/seeds.ts";

const counts = { short: 1, long: 20 };

function takeInLab(walk: Walk): Promise<void> {
  return withNetworkNamespace("walk", nodeSetUp, async () => {
    const node = await LabWalkNode.build();
    try {
      await runWalk(walk, node);
    } catch (error) {
      // The daemon's log shows its writes, and which objects it treated as foreign.
      throw new Error(`The log ends with:\n${node.tail}`, { cause: error });
    } finally {
      await node.close();
    }
  });
}

describe(`random walks of ${walkLength} steps end in the state of a fresh start`, () => {
  for (const seed of seeds(counts)) {
    it(`with seed ${seed}`, () => takeInLab(walkIn(["ipvs"], walkOf(seed))));
  }
});

/**
 * The unit tests run all walks. This test runs those for which a real kernel reveals more than the fake one. Each takes
 * half a minute.
 */
const foundHere: ReadonlySet<string> = new Set([
  "node ports leave while excluded then the program is killed",
]);

describe("walks that failed in the past", () => {
  const walks = foundWalks().filter(({ name }) => isLong || foundHere.has(name));
  it("are kept as tests", () => {
    const names = walks.map(({ name }) => name);
    for (const name of foundHere) assert.ok(names.includes(name), name);
  });
  for (const { name, walk } of walks) it(name, () => takeInLab(walk));
});
