/**
 * Random walks on the fake kernel: the cluster changes, the program comes, goes and is killed, addresses of
 * the node, settings and virtual servers of others come and go, and what is ours is damaged by hand. Wherever
 * a walk settles, the kernel is as a fresh start would make it. `make walks` takes 10,000 of them.
 */
import { describe, it } from "node:test";
import { FakeWalkNode } from "../../support/random-walk/fake-walk-node.ts";
import { foundWalks } from "../../support/random-walk/found-walks.ts";
import { runWalk } from "../../support/random-walk/run-walk.ts";
import { shortenWalk } from "../../support/random-walk/shorten-walk.ts";
import { type Walk, walkLength, walkOf } from "../../support/random-walk/walk-step.ts";

/** `TEST_FIRST_SEED=4711 TEST_WALKS=1` takes one walk again. */
const firstSeed = Number(process.env["TEST_FIRST_SEED"] ?? 1);
const walkCount = Number(process.env["TEST_WALKS"] ?? 150);
const walksPerTest = 10;

/** Takes a while, so it is not done unasked: `TEST_SHRINK=1` prints the walk as `found/` keeps it. */
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
    const again = `TEST_FIRST_SEED=${seed} TEST_WALKS=1, and TEST_SHRINK=1 for a shorter one`;
    throw new Error(`The walk with seed ${seed} goes wrong (again: ${again})`, { cause: error });
  }
}

describe(`random walks of ${walkLength} steps come to the state of a fresh start`, () => {
  for (let from = firstSeed; from < firstSeed + walkCount; from += walksPerTest) {
    const end = Math.min(from + walksPerTest, firstSeed + walkCount);
    it(`with seeds ${from} to ${end - 1}`, async () => {
      for (let seed = from; seed < end; seed += 1) await takeWalk(seed);
    });
  }
});

describe("walks that once went wrong", () => {
  for (const { name, walk: found } of foundWalks()) {
    it(name, () => runWalk(found, new FakeWalkNode()));
  }
});
