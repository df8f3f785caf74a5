/**
 * Every single fault of every change around source ranges: after each request a judge follows packets through rules, sets,
 * addresses and virtual servers of the fake kernel. By default every fifth run is played; `make faults`
 * plays them all, and all pairs of changes that are rejected for good.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { kindsText, readExposedRuns } from "../../support/exposure/exposed-runs.ts";
import { iptablesMode, ipvsMode, type Mode } from "../../support/exposure/programs.ts";
import { playWithFaults, playWithPairs } from "../../support/exposure/run.ts";
import { type Scenario, scenariosOf } from "../../support/exposure/scenarios.ts";

const isWhole = process.env["TEST_EXPOSURE"] === "whole";
const share = isWhole ? 1 : 5;
const listed = readExposedRuns();
const unplayed = new Set(listed.keys());

describe("clients that source ranges shut out stay out, whatever request fails", () => {
  for (const mode of [ipvsMode, iptablesMode]) {
    for (const scenario of scenariosOf(mode)) {
      it(`${mode.name}: ${scenario.name}`, () => playAll(mode, scenario));
    }
  }

  if (isWhole) {
    for (const scenario of scenariosOf(ipvsMode).filter(
      ({ before, isCleanUp }) => before && !isCleanUp,
    )) {
      it(`${scenario.name}: two changes rejected for good`, async () => {
        for await (const { name, run } of playWithPairs(scenario)) {
          assert.deepEqual(run.exposures, [], name);
        }
      });
    }

    it("lists no run that does not exist", () => assert.deepEqual([...unplayed], []));
  }
});

async function playAll(mode: Mode, scenario: Scenario): Promise<void> {
  let expectedState: string | undefined;
  for await (const { name, run } of playWithFaults(scenario, share, mode)) {
    unplayed.delete(name);
    const details = `${name}: exposed-runs.txt says otherwise\n${JSON.stringify(run.exposures)}`;
    assert.equal(kindsText(run.exposures), listed.get(name) ?? "", details);
    expectedState ??= run.state;
    assert.equal(run.state, expectedState, `${name}: ends like the run without a fault`);
  }
}
