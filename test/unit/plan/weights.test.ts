import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EndpointSliceRecord } from "../../../src/api/objects.ts";
import { type Endpoint, endpointPortKey, mergeSlices } from "../../../src/model/endpoints.ts";
import { rampSteps, type Tuning } from "../../../src/model/tuning.ts";
import { noTuningFacts } from "../../../src/plan/tuning-facts.ts";
import { weightsOf } from "../../../src/plan/weights.ts";
import fc from "../../support/fast-check.ts";
import { endpointRecord, sliceRecord } from "../../support/records.ts";

const largestWeight = 65_535;

/** A slice with `count` endpoints of this weight, all on node-2, starting at 10.`net`.0.1. */
function slice(name: string, net: number, count: number, weightText?: string): EndpointSliceRecord {
  const endpoints = Array.from({ length: count }, (_, index) =>
    endpointRecord(`10.${net}.${Math.floor(index / 250)}.${(index % 250) + 1}`),
  );
  return sliceRecord(endpoints, {
    name: `default/${name}`,
    ...(weightText === undefined ? {} : { weightText }),
  });
}

function endpointsOf(...slices: readonly EndpointSliceRecord[]): readonly Endpoint[] {
  return (
    mergeSlices(slices, "IPv4", "node-1").get(endpointPortKey({ name: "http", protocol: "TCP" })) ??
    []
  );
}

function weights(
  endpoints: readonly Endpoint[],
  tuning: Partial<Tuning>,
  facts: Partial<typeof noTuningFacts> = {},
): readonly number[] {
  return weightsOf(endpoints, { scheduler: "wrr", ...tuning }, { ...noTuningFacts, ...facts });
}

describe("weights of real servers", () => {
  const three = endpointsOf(slice("a", 1, 1, "5"), slice("b", 2, 1, "0"), slice("c", 3, 1));

  it("are 1 by default, or if the scheduler ignores them", () => {
    assert.deepEqual(weights(three, {}), [1, 1, 1]);
    assert.deepEqual(weights(three, { weights: "equal" }), [1, 1, 1]);
    assert.deepEqual(weights(three, { weights: "slice", scheduler: "rr" }), [1, 1, 1]);
  });

  it("are those of slices or Nodes, and 1 if one has none", () => {
    assert.deepEqual(weights(three, { weights: "slice" }), [5, 0, 1]);
    const nodeWeights = new Map([["node-2", 7]]);
    assert.deepEqual(weights(three, { weights: "node" }, { nodeWeights }), [7, 7, 7]);
    assert.deepEqual(weights(three, { weights: "node" }), [1, 1, 1]);
  });

  describe("that the endpoints answer", () => {
    const answered = (answers: readonly (number | undefined)[], tuning: Partial<Tuning> = {}) => {
      const endpoints = endpointsOf(slice("a", 1, answers.length));
      const byAddress = new Map(
        endpoints.map(({ address }, index) => [address, answers[index]] as const),
      );
      const answerOf: typeof noTuningFacts.answerOf = (address) => {
        const weight = byAddress.get(address);
        return weight === undefined ? { problem: "status 404" } : { weight };
      };
      return weights(endpoints, { weights: { port: 1, path: "/" }, ...tuning }, { answerOf });
    };

    it("are those answers, and 1 if the scheduler ignores weights", () => {
      assert.deepEqual(answered([10, 90]), [10, 90]);
      assert.deepEqual(answered([10, 90], { scheduler: "rr" }), [1, 1]);
      assert.deepEqual(answered([10, 90], { slowStartMs: 1_000 }), [100, 900]);
    });

    it("are the average of the answers for endpoints without an answer", () => {
      assert.deepEqual(answered([undefined, undefined]), [1, 1]);
      assert.deepEqual(answered([10, undefined, 90]), [10, 50, 90]);
      assert.deepEqual(answered([0, undefined, undefined]), [0, 1, 1]);
    });

    it("are 0 for at most a third of the endpoints, whatever they answer", () => {
      assert.deepEqual(answered([0]), [1]);
      assert.deepEqual(answered([0, 50]), [1, 50]);
      assert.deepEqual(answered([0, 50, 50]), [0, 50, 50]);
      assert.deepEqual(answered([0, 0, 50]), [1, 1, 50]);
      assert.deepEqual(answered([0, 0, 0]), [1, 1, 1]);
      const answers = fc.array(fc.constantFrom(0, 0, 1, 100, undefined), {
        minLength: 1,
        maxLength: 50,
      });
      fc.assert(
        fc.property(answers, (list) => {
          const zeros = answered(list).filter((weight) => weight === 0).length;
          assert.ok(zeros <= list.length / 3, `${zeros} of ${list.length}`);
        }),
      );
    });
  });

  it("keep their proportions and their slow start if ten times the weight is too large", () => {
    const endpoints = endpointsOf(slice("a", 1, 1, "60000"), slice("b", 2, 1, "20000"));
    const tuning = { weights: "slice", slowStartMs: 30_000 } as const;
    const [large = 0, small = 0] = weights(endpoints, tuning);
    assert.ok(large <= largestWeight && Math.abs(large / small - 3) < 0.01, `${large} ${small}`);
    const rampStep = (address: string) => (address === endpoints[0]?.address ? 1 : undefined);
    const [growing = 0, other] = weights(endpoints, tuning, { rampStep });
    assert.ok(Math.abs(growing / large - 0.1) < 0.01, `${growing} of ${large}`);
    assert.equal(other, small);
  });

  it("are 0 for ejected endpoints, as long as at most a third of the endpoints have weight 0", () => {
    const sizes = fc.integer({ min: 1, max: 50 });
    fc.assert(
      fc.property(sizes, fc.func(fc.boolean()), fc.nat(3), (size, isOut, zeroSlices) => {
        const endpoints = endpointsOf(slice("a", 1, size), slice("b", 2, zeroSlices, "0"));
        const isEjected = (key: string): boolean => isOut(key);
        const tuning = { outlierEjectionMs: 30_000, weights: "slice" } as const;
        const result = weights(endpoints, tuning, { isEjected });
        const room = Math.floor(endpoints.length / 3) - zeroSlices;
        const out = endpoints.filter(({ key, slice: name }) => name === "a" && isEjected(key));
        const zeros = result.filter((weight) => weight === 0).length;
        assert.equal(zeros, zeroSlices + Math.max(0, Math.min(room, out.length)));
      }),
    );
  });

  it("are not changed by ejections if the scheduler would then reject connections", () => {
    const isEjected = (): boolean => true;
    const tuning = { outlierEjectionMs: 30_000 } as const;
    const endpoints = endpointsOf(slice("a", 1, 3));
    for (const scheduler of ["sh", "mh", "dh"])
      assert.deepEqual(weights(endpoints, { ...tuning, scheduler }, { isEjected }), [1, 1, 1]);
    for (const scheduler of ["sh", "mh"] as const) {
      const schedulerFlags = [`${scheduler}-fallback`] as const;
      const own = { ...tuning, scheduler, schedulerFlags };
      assert.deepEqual(weights(endpoints, own, { isEjected }), [0, 1, 1]);
    }
    assert.deepEqual(weights(endpoints, { scheduler: "rr" }, { isEjected }), [1, 1, 1]);
  });

  it("grow in steps for new endpoints, with the full weight of the others", () => {
    const rampStep = (address: string): number | undefined =>
      address === "10.1.0.1" ? 3 : undefined;
    const slowStart = { slowStartMs: 1_000, weights: "slice" } as const;
    assert.deepEqual(weights(three, slowStart, { rampStep }), [15, 0, rampSteps]);
    const heavy = endpointsOf(slice("a", 1, 1, "65535"));
    assert.deepEqual(
      weights(heavy, slowStart),
      [largestWeight],
      "the maximum that the kernel accepts",
    );
  });

  it("give a canary its share of the total, in small numbers, for all sizes", () => {
    const size = fc.integer({ min: 1, max: 300 });
    const percents = fc.integer({ min: 1, max: 99 });
    fc.assert(
      fc.property(size, size, percents, (canaries, others, percent) => {
        const endpoints = endpointsOf(slice("new", 1, canaries), slice("old", 2, others));
        const canary = { by: "slice", name: "new", percent } as const;
        const shared = weights(endpoints, { canary });
        const sum = (list: readonly number[]): number => list.reduce((one, more) => one + more, 0);
        const ofCanary = sum(shared.filter((_, index) => endpoints[index]?.slice === "new"));
        const share = (100 * ofCanary) / sum(shared);
        assert.ok(Math.abs(share - percent) < 5, `${share} for ${percent} percent`);
        const most = Math.ceil(largestWeight / rampSteps);
        assert.ok(shared.every((weight) => weight >= 1 && weight <= most));
      }),
    );
  });

  it("give every endpoint with a weight at least one, however large the others are", () => {
    const endpoints = endpointsOf(
      slice("a", 1, 1, "65535"),
      slice("b", 2, 1, "1"),
      slice("c", 3, 1),
    );
    const canary = { by: "slice", name: "c", percent: 50 } as const;
    const [large = 0, small, ofCanary = 0] = weights(endpoints, { weights: "slice", canary });
    assert.equal(small, 1);
    assert.ok(large > 6_000 && ofCanary > 6_000);
  });

  it("can give a canary all or no connections, and are zero for endpoints without weight", () => {
    const canary = { by: "slice", name: "a", percent: 100 } as const;
    assert.deepEqual(weights(three, { canary }), [1, 0, 0]);
    assert.deepEqual(weights(three, { canary: { ...canary, percent: 0 } }), [0, 1, 1]);
    const half = { canary: { ...canary, percent: 50 }, weights: "slice" } as const;
    assert.deepEqual(weights(three, half), [1, 0, 1]);
  });

  it("ignore a canary if one of the two groups is empty, or has no weight", () => {
    const tuning = { weights: "slice" } as const;
    for (const name of ["b", "other"]) {
      const canary = { by: "slice", name, percent: 10 } as const;
      assert.deepEqual(weights(three, { ...tuning, canary }), [5, 0, 1]);
    }
    const zone = { by: "zone", name: "a", percent: 10 } as const;
    assert.deepEqual(weights(three, { ...tuning, canary: zone }), [5, 0, 1]);
  });
});
