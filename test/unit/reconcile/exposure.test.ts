/**
 * Every single fault of every change around source ranges: after each request a judge follows packets through rules, sets,
 * addresses and virtual servers of the fake kernel. By default every fifth run is played; `make faults`
 * plays them all, and all pairs of changes that are rejected for good.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { kindsText, readExposedRuns } from "../../support/exposure/exposed-runs.ts";
import { playWithFaults, playWithPairs } from "../../support/exposure/run.ts";
import { scenarios } from "../../support/exposure/scenarios.ts";

const isWhole = process.env["TEST_EXPOSURE"] === "whole";
const share = isWhole ? 1 : 5;
const listed = readExposedRuns();
const unplayed = new Set(listed.keys());

describe("clients that source ranges shut out stay out, whatever request fails", () => {
  for (const scenario of scenarios) {
    it(scenario.name, async () => {
      let expectedState: string | undefined;
      for await (const { name, run } of playWithFaults(scenario, share)) {
        unplayed.delete(name);
        const details = JSON.stringify(run.exposures, undefined, 2);
        const known = listed.get(name) ?? "";
        assert.equal(
          kindsText(run.exposures),
          known,
          `${name}: exposed-runs.txt says otherwise\n${details}`,
        );
        expectedState ??= run.state;
        assert.equal(run.state, expectedState, `${name}: ends like the run without a fault`);
      }
    });
  }

  if (isWhole) {
    for (const scenario of scenarios.filter(({ before, isCleanUp }) => before && !isCleanUp)) {
      it(`${scenario.name}: two changes rejected for good`, async () => {
        for await (const { name, run } of playWithPairs(scenario)) {
          assert.deepEqual(run.exposures, [], name);
        }
      });
    }

    it("lists no run that does not exist", () => assert.deepEqual([...unplayed], []));
  }
});
