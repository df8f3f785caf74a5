/**
 * Every single fault of every change around source ranges: after each request a judge follows packets through rules, sets,
 * addresses and virtual servers of the fake kernel. By default every fifth run is played; `make faults`
 * plays them all, and all pairs of changes that are rejected for good.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { iptablesMode, ipvsMode, type Mode } from "../../support/exposure/programs.ts";
import { playWithFaults, playWithPairs } from "../../support/exposure/run.ts";
import { type Scenario, scenariosOf } from "../../support/exposure/scenarios.ts";

const isWhole = process.env["TEST_EXPOSURE"] === "whole";
const share = isWhole ? 1 : 5;

describe("clients that source ranges shut out stay out, whatever request fails", () => {
  for (const mode of [ipvsMode, iptablesMode]) {
    for (const scenario of scenariosOf(mode)) {
      it(`${mode.name}: ${scenario.name}`, () => playAll(mode, scenario));
    }
  }

  if (isWhole) {
    for (const mode of [ipvsMode, iptablesMode]) {
      for (const scenario of scenariosOf(mode)) {
        if (scenario.before === undefined || scenario.isCleanUp) continue;
        it(`${mode.name}: ${scenario.name}: two changes rejected for good`, async () => {
          for await (const { name, run } of playWithPairs(scenario, mode)) {
            assert.deepEqual(run.exposures, [], name);
          }
        });
      }
    }
  }
});

async function playAll(mode: Mode, scenario: Scenario): Promise<void> {
  let expectedState: string | undefined;
  for await (const { name, run } of playWithFaults(scenario, share, mode)) {
    assert.deepEqual(run.exposures, [], name);
    expectedState ??= run.state;
    assert.equal(run.state, expectedState, `${name}: ends like the run without a fault`);
  }
}
