/**
 * Random walks on the fake kernel. The cluster, the node's addresses, the settings, the mode, the writer of rules and
 * foreign virtual servers change; the program is stopped, started and killed; and kube-ipvs's objects are damaged.
 * Whenever a walk settles, the kernel state must equal that of a fresh start. `make walks` runs 10,000 walks.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FakeWalkNode } from "../../support/random-walk/fake-walk-node.ts";
import { foundWalks } from "../../support/random-walk/found-walks.ts";
import { JudgedWalkNode } from "../../support/random-walk/judged-walk-node.ts";
import { runWalk } from "../../support/random-walk/run-walk.ts";
import { shortenWalk } from "../../support/random-walk/shorten-walk.ts";
import {
  type Walk,
  type WalkSettings,
  walkIn,
  walkLength,
  walkOf,
} from "../../support/random-walk/walk-step.ts";
import { groupsOf, isLong, seeds } from "../../support/seeds.ts";

const counts = { short: 50, long: 1_000 };
const walksPerTest = 10;

/**
 * Walks whose packets are judged take ten times as long. Their programs run in these modes, one after another. The short
 * form has only the last ones.
 */
const judgedCounts = { short: 1, long: 50 };
const judgedModes: readonly (readonly WalkSettings["mode"][])[] = [
  ...(isLong ? ([["ipvs"], ["iptables"], ["userspace"]] as const) : []),
  ["ipvs", "iptables", "userspace", "iptables", "ipvs", "userspace"],
];

/** Shrinking takes a long time, so it must be requested: `TEST_SHRINK=1` prints the walk in the format of `found/`. */
const shrinks = process.env["TEST_SHRINK"] !== undefined;

async function goesWrong(walk: Walk): Promise<boolean> {
  return runWalk(walk, new FakeWalkNode()).then(
    () => false,
    () => true,
  );
}

async function takeWalk(seed: number): Promise<void> {
  const walk = walkOf(seed);
  try {
    await runWalk(walk, new FakeWalkNode());
  } catch (error) {
    if (shrinks) console.log(JSON.stringify(await shortenWalk(walk, goesWrong)));
    const again = `TEST_FIRST_SEED=${seed} TEST_SEEDS=1, and TEST_SHRINK=1 for a shorter one`;
    throw new Error(`The walk with seed ${seed} failed (to repeat: ${again})`, { cause: error });
  }
}

describe(`random walks of ${walkLength} steps end in the state of a fresh start`, () => {
  for (const some of groupsOf(walksPerTest, seeds(counts))) {
    it(`with seeds ${some[0]} to ${some.at(-1)}`, async () => {
      for (const seed of some) await takeWalk(seed);
    });
  }
});

describe("no change to the kernel admits a packet that the program then rejects", () => {
  for (const modes of judgedModes) {
    for (const seed of seeds(judgedCounts).slice(0, judgedCounts.long)) {
      it(`with seed ${seed} in the modes ${modes.join(", ")}`, async () => {
        const walk = walkIn(modes, walkOf(seed));
        const node = new JudgedWalkNode(walk);
        await runWalk(walk, node);
        assert.deepEqual(node.exposures, []);
      });
    }
  }
});

describe("walks that failed in the past", () => {
  for (const { name, walk: found } of foundWalks()) {
    it(name, () => runWalk(found, new FakeWalkNode()));
  }
});
