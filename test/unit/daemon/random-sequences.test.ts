/**
 * Applies many random changes one after another, with syncs in between, in both IPVS and iptables mode. The kernel
 * state must equal that of a fresh start with the final objects, even if kernel changes fail, replies are lost,
 * connections delay drains, or the program is reconfigured, restarted or killed.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { differenceText } from "../../golden/kernel-state.ts";
import { FakeNode } from "../../support/fake-node.ts";
import fc from "../../support/fast-check.ts";
import {
  type ClusterChange,
  carryOut,
  clusterChanges,
  clusterFlags,
} from "../../support/random-cluster/changes.ts";
import { type Interlude, interludes, undergo } from "../../support/random-cluster/interludes.ts";
import { differencesIn } from "../../support/random-walk/walker.ts";
import { type Counts, groupsOf, seeds } from "../../support/seeds.ts";

const changeCount = 200;
/** Shrinking takes minutes, so it must be requested with `TEST_SHRINK=1`. */
const shrinks = process.env["TEST_SHRINK"] !== undefined;
const seedsPerTest = 10;

/** The number of sequences for each mode. */
const modes: readonly {
  readonly mode: string;
  readonly flags: Readonly<Record<string, string>>;
  readonly counts: Counts;
}[] = [
  { mode: "ipvs", flags: {}, counts: { short: 60, long: 1_000 } },
  {
    mode: "iptables",
    flags: { "proxy-mode": "iptables", "iptables-min-sync-period": "0s" },
    counts: { short: 20, long: 250 },
  },
];

interface Sequence {
  readonly flags: Readonly<Record<string, string>>;
  readonly steps: readonly (readonly [ClusterChange, Interlude])[];
}

/** Intervals between complete reads. With an hour, everything depends on the cached state. */
const periods = fc.constantFrom("30s", "1h").map((period) => ({
  "ipvs-sync-period": period,
  "kube-ipvs-verification-period": period,
}));

const sequences: fc.Arbitrary<Sequence> = fc.noBias(
  fc
    .record({
      flags: clusterFlags,
      period: periods,
      changes: fc.array(clusterChanges, { minLength: changeCount, maxLength: changeCount }),
      between: interludes(changeCount),
    })
    .map(({ flags, period, changes, between }) => ({
      flags: { ...flags, ...period },
      steps: changes.map((change, index) => [change, between[index] ?? { kind: "none" }] as const),
    })),
);

async function endOf({ flags, steps }: Sequence): Promise<FakeNode> {
  const node = new FakeNode(flags);
  await node.start();
  for (const [change, interlude] of steps) {
    carryOut(change, node.source);
    await undergo(interlude, node);
  }
  await node.comeToRest();
  return node;
}

/** Starts a node with an empty kernel, the same objects in a different order, and the same address owners. */
async function freshStart(after: FakeNode): Promise<FakeNode> {
  const node = new FakeNode(after.flags, { held: after.holders() });
  node.kernel.link.setNodeAddresses(after.kernel.link.peekNode());
  node.source.apply(...after.source.objects().toReversed());
  await node.start();
  await node.settle();
  return node;
}

async function compare(sequence: Sequence): Promise<void> {
  const incremental = await endOf(sequence);
  const fresh = await freshStart(incremental);
  const differences = differencesIn(await fresh.state(), await incremental.state());
  assert.equal(differences.map(differenceText).join("\n"), "");
  assert.deepEqual(incremental.figures(), fresh.figures());
  await incremental.stop();
  await fresh.stop();
}

async function run(seed: number, flags: Sequence["flags"]): Promise<void> {
  const options = { seed, numRuns: 1, endOnFailure: !shrinks };
  const { failed, errorInstance, counterexample } = await fc.check(
    fc.asyncProperty(sequences, (sequence) =>
      compare({ ...sequence, flags: { ...sequence.flags, ...flags } }),
    ),
    options,
  );
  if (!failed) return;
  if (shrinks) console.log(fc.stringify(counterexample));
  const again = `TEST_SEEDS=1 TEST_FIRST_SEED=${seed}, and TEST_SHRINK=1 for a shorter one`;
  throw new Error(`Seed ${seed} ends in a different state (to repeat: ${again})`, {
    cause: errorInstance,
  });
}

for (const { mode, flags, counts } of modes) {
  describe(`${changeCount} random changes end in the state of a fresh start in ${mode} mode`, () => {
    for (const some of groupsOf(seedsPerTest, seeds(counts))) {
      it(`with seeds ${some[0]} to ${some.at(-1)}`, async () => {
        for (const seed of some) await run(seed, flags);
      });
    }
  });
}
