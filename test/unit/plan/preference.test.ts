import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Endpoint } from "../../../src/model/endpoints.ts";
import type { Tuning } from "../../../src/model/tuning.ts";
import { preferenceFor, preferenceProblems } from "../../../src/plan/preference.ts";
import { type NodeGroup, noTuningFacts, type TuningFacts } from "../../../src/plan/tuning-facts.ts";
import fc from "../../support/fast-check.ts";

const label = "example.com/rack";
const preference = { label, minimumPercent: 50 };

function factsWith(group: Partial<NodeGroup>): TuningFacts {
  const whole = { nodeNames: new Set(["near"]), nodeCount: 4, isLabelUsed: true, ...group };
  return { ...noTuningFacts, nodeGroups: new Map([[label, whole]]) };
}

function endpointsOn(...nodeNames: readonly string[]): readonly Endpoint[] {
  return nodeNames.map((nodeName, index) => endpointOn(nodeName, index));
}

function endpointOn(nodeName: string, index: number, rest: Partial<Endpoint> = {}): Endpoint {
  return {
    ...{ address: `10.0.0.${index}`, port: 80, key: `10.0.0.${index}:80` },
    ...{ nodeName, slice: "a", isLocal: false, isReady: true, isServing: true },
    ...{ isTerminating: false, ...rest },
  } as Endpoint;
}

/** The nodes of the endpoints that stay, and the state. */
function outcome(
  endpoints: readonly Endpoint[],
  facts: TuningFacts = factsWith({}),
  tuning: Partial<Tuning> = {},
): string {
  const ready = endpoints.filter(({ isReady }) => isReady);
  const chosen = ready.length > 0 ? ready : endpoints;
  const result = preferenceFor(
    chosen,
    endpoints,
    { scheduler: "wrr", preference, ...tuning },
    facts,
  );
  assert.ok(result !== undefined);
  const { state, excluded } = result;
  const left = chosen.filter(({ key }) => !excluded.has(key));
  return `${state}: ${left.map(({ nodeName }) => nodeName).join(" ")}`;
}

describe("a topology preference", () => {
  it("excludes endpoints on Nodes whose label value differs from this node's", () => {
    assert.equal(outcome(endpointsOn("near", "far", "far", "")), "applied: near");
  });

  it("excludes no endpoint if the preferred ones are below their minimum share", () => {
    // The only preferred Node is one of four. Half of its fair share is an eighth of the endpoints.
    const far = Array.from({ length: 7 }, () => "far");
    assert.equal(outcome(endpointsOn("near", ...far)), "applied: near");
    assert.match(outcome(endpointsOn("near", "far", ...far)), /^overflow: near far far/);
    const minimum = (minimumPercent: number): Partial<Tuning> => ({
      preference: { label, minimumPercent },
    });
    assert.equal(
      outcome(endpointsOn("near", "far", ...far), factsWith({}), minimum(0)),
      "applied: near",
    );
    assert.match(outcome(endpointsOn("near", ...far), factsWith({}), minimum(100)), /^overflow/);
    assert.equal(
      outcome(endpointsOn("near", "far", "far", "far"), factsWith({}), minimum(100)),
      "applied: near",
    );
  });

  it("takes the size of the rack into account", () => {
    const endpoints = endpointsOn("near", "far", "far", "far", "far");
    const nodeNames = new Set(["near", "near-2"]);
    assert.equal(outcome(endpoints, factsWith({ nodeNames, nodeCount: 5 })), "applied: near");
    assert.match(outcome(endpoints, factsWith({ nodeNames, nodeCount: 4 })), /^overflow/);
  });

  it("excludes no endpoint without a label on this Node, a list of Nodes, or a preferred endpoint", () => {
    const two = endpointsOn("near", "far");
    assert.equal(outcome(two, factsWith({ nodeNames: new Set() })), "no-label: near far");
    assert.equal(outcome(two, noTuningFacts), "nodes-unknown: near far");
    const none = { preference: { label, minimumPercent: 0 } };
    assert.equal(outcome(endpointsOn("far", "far"), factsWith({}), none), "overflow: far far");
  });

  it("does not count endpoints that are not ready or have weight 0", () => {
    const serving = { isReady: false, isTerminating: true };
    const far = endpointOn("far", 2);
    assert.equal(outcome([endpointOn("near", 1, serving), far]), "overflow: far");
    const bothLeave = [endpointOn("near", 1, serving), endpointOn("far", 2, serving)];
    assert.equal(outcome(bothLeave), "overflow: near far");
    const withoutWeight = [endpointOn("near", 1, { sliceWeight: 0 }), far];
    const bySlice = { weights: "slice" } as const;
    assert.equal(outcome(withoutWeight, factsWith({}), bySlice), "overflow: near far");
    assert.equal(
      outcome(withoutWeight, factsWith({}), { ...bySlice, scheduler: "rr" }),
      "applied: near",
    );
  });

  it("keeps endpoints both in and outside the canary group", () => {
    const canary = { by: "slice", name: "new", percent: 10 } as const;
    const old = [endpointOn("near", 1), endpointOn("far", 2)];
    const farCanary = endpointOn("far-2", 3, { slice: "new" });
    assert.equal(outcome([...old, farCanary], factsWith({}), { canary }), "applied: near far-2");
    const onlyCanaryNear = [
      endpointOn("far", 1),
      endpointOn("near", 2, { slice: "new" }),
      endpointOn("far-2", 3, { slice: "new" }),
    ];
    assert.equal(outcome(onlyCanaryNear, factsWith({}), { canary }), "applied: far near");
    // Without weights there is no canary.
    assert.equal(
      outcome(onlyCanaryNear, factsWith({}), { canary, scheduler: "rr" }),
      "applied: near",
    );
  });

  it("never excludes all endpoints that have a weight", () => {
    const names = fc.constantFrom("near", "far", "");
    const one = fc.record({
      nodeName: names,
      sliceWeight: fc.constantFrom(undefined, 0, 3),
      slice: fc.constantFrom("a", "new"),
      isReady: fc.boolean(),
      isHinted: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(one), fc.nat(100), (drawn, minimumPercent) => {
        const all = drawn.map(({ nodeName, isHinted: _, sliceWeight, ...rest }, index) =>
          endpointOn(nodeName, index, {
            ...rest,
            ...(sliceWeight === undefined ? {} : { sliceWeight }),
          }),
        );
        const chosen = all.filter(({ isReady }, index) => isReady && drawn[index]?.isHinted);
        const tuning: Tuning = {
          ...({ scheduler: "wrr", weights: "slice" } as const),
          preference: { label, minimumPercent },
          canary: { by: "slice", name: "new", percent: 10 },
        };
        const weightOf = (list: readonly Endpoint[], slice: string): number =>
          list
            .filter((endpoint) => endpoint.slice === slice)
            .reduce((sum, { sliceWeight = 1 }) => sum + sliceWeight, 0);
        const excluded = preferenceFor(chosen, all, tuning, factsWith({}))?.excluded;
        const left = chosen.filter(({ key }) => excluded?.has(key) !== true);
        for (const slice of ["a", "new"])
          assert.equal(weightOf(left, slice) > 0, weightOf(chosen, slice) > 0);
      }),
    );
  });

  it("is reported if no Node has the label", () => {
    const problems = (facts: TuningFacts): readonly string[] =>
      preferenceProblems({ scheduler: "rr", preference }, label, facts).map(
        ({ message }) => message,
      );
    assert.deepEqual(problems(factsWith({ isLabelUsed: false })), [
      `no Node has the label ${label}`,
    ]);
    assert.deepEqual(problems(factsWith({})), []);
    assert.deepEqual(problems(noTuningFacts), []);
  });
});
