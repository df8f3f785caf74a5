/**
 * Applies random changes one after another, with syncs and restarts in between. The kernel state must equal that of a
 * fresh start with the final objects in an empty namespace.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import type { Holders } from "../../src/plan/claims/claim.ts";
import { compareStates, differenceText, type KernelState } from "../golden/kernel-state.ts";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { observeKernel } from "../golden/observe.ts";
import { eventually, type Flags, type LabDaemon, startLabDaemon } from "../support/lab-daemon.ts";
import { MemorySource } from "../support/memory-source.ts";
import { withNetworkNamespace } from "../support/netns/network-namespace.ts";
import { patienceMs } from "../support/patience.ts";
import {
  type ClusterChange,
  carryOut,
  clusterChanges,
  clusterFlags,
} from "../support/random-cluster/changes.ts";
import { seeds } from "../support/seeds.ts";

const changeCount = 200;
const counts = { short: 3, long: 30 };

type Interlude = "none" | "sync" | "restart";

interface Sequence {
  readonly flags: Flags;
  readonly steps: readonly (readonly [ClusterChange, Interlude])[];
}

const interludes: fc.Arbitrary<Interlude> = fc.oneof(
  { weight: 110, arbitrary: fc.constant("none" as const) },
  { weight: 6, arbitrary: fc.constant("sync" as const) },
  { weight: 1, arbitrary: fc.constant("restart" as const) },
);

const sequences: fc.Arbitrary<Sequence> = fc.record({
  // The daemon does not wait for a Node object.
  flags: clusterFlags.map((flags) => ({ manifests: "/memory", ...flags })),
  steps: fc.array(fc.tuple(clusterChanges, interludes), {
    minLength: changeCount,
    maxLength: changeCount,
  }),
});

/** A daemon that can be restarted with its current objects. */
class Subject {
  readonly #flags: Flags;
  readonly #objects = new MemorySource();
  #daemon: LabDaemon;

  private constructor(flags: Flags, daemon: LabDaemon) {
    this.#flags = flags;
    this.#daemon = daemon;
  }

  static async start(flags: Flags): Promise<Subject> {
    return new Subject(flags, await startLabDaemon([], flags));
  }

  get objects(): MemorySource {
    return this.#objects;
  }

  async take([change, interlude]: Sequence["steps"][number]): Promise<void> {
    carryOut(change, this.#objects);
    carryOut(change, this.#daemon);
    if (interlude === "none") return;
    await this.#daemon.settled();
    if (interlude === "sync") return;
    const held = this.#daemon.holders();
    await this.#daemon.stop();
    this.#daemon = await startLabDaemon(this.#objects.objects(), this.#flags, undefined, held);
  }

  /** Settles, waits for the last drain, and stops. Returns the owners of contested addresses. */
  async stop(): Promise<Holders> {
    await this.#daemon.settled();
    const drains = (): Promise<readonly string[]> =>
      this.#daemon.metrics("kube_ipvs_draining_real_servers ");
    await eventually(drains, ["kube_ipvs_draining_real_servers 0"], patienceMs);
    const { errors } = this.#daemon;
    const held = this.#daemon.holders();
    // A daemon that is still running would keep the test process alive.
    await this.#daemon.stop();
    assert.deepEqual(errors, []);
    return held;
  }
}

/** The kernel state after all steps, the final objects, and the owners of contested addresses. */
function incremental({
  flags,
  steps,
}: Sequence): Promise<readonly [KernelState, MemorySource, Holders]> {
  return withNetworkNamespace("incremental", nodeSetUp, async () => {
    const subject = await Subject.start(flags);
    for (const step of steps) await subject.take(step);
    const held = await subject.stop();
    return [await observeKernel([]), subject.objects, held];
  });
}

function fresh(objects: MemorySource, flags: Flags, held: Holders): Promise<KernelState> {
  return withNetworkNamespace("fresh", nodeSetUp, async () => {
    const daemon = await startLabDaemon(objects.objects().toReversed(), flags, undefined, held);
    await daemon.stop();
    return observeKernel([]);
  });
}

describe(`${changeCount} random changes end in the state of a fresh start`, () => {
  for (const seed of seeds(counts)) {
    it(`with seed ${seed}`, async (test) => {
      const [sequence] = fc.sample(fc.noBias(sequences), { seed, numRuns: 1 });
      assert.ok(sequence !== undefined);
      const [actual, objects, held] = await incremental(sequence);
      const expected = await fresh(objects, sequence.flags, held);
      const lines = expected.ipvs?.split("\n").length ?? 0;
      test.diagnostic(`${objects.objects().length} objects, ${lines} lines of ipvsadm`);
      assert.equal(compareStates(expected, actual).map(differenceText).join("\n"), "");
    });
  }
});
