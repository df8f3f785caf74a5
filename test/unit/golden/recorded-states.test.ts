/** Recorded states are stored as differences. Each text must restore the original states exactly. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { type KernelState, stateFiles } from "../../golden/kernel-state.ts";
import { baseFile, formatStates, parseStates } from "../../golden/recorded-states.ts";
import { listScenarios, readScenario } from "../../golden/scenario.ts";
import * as iptablesMode from "../../golden-iptables/recorded.ts";
import fc from "../../support/fast-check.ts";

const line = fc.constantFrom("-A KUBE-A", "-A KUBE-B", "-- ipvs", "== step0", "1+ one", "", "é ");
const fileText = fc
  .array(line, { maxLength: 6 })
  .map((lines) => lines.map((text) => `${text}\n`).join(""));
const state: fc.Arbitrary<KernelState> = fc.record(
  Object.fromEntries(stateFiles.map((file) => [file, fileText])),
  { requiredKeys: [], noNullPrototype: true },
);

describe("states that are stored as differences", () => {
  it("equal the states that were written, for all lines", () => {
    fc.assert(
      fc.property(state, fc.array(state, { maxLength: 4 }), (base, states) => {
        assert.deepEqual(parseStates(formatStates(states, base), base), states);
      }),
      { numRuns: 2_000 },
    );
  });

  for (const [folder, { listScenarios: list, readScenario: read }] of [
    ["golden", { listScenarios, readScenario }],
    ["golden-iptables", iptablesMode],
  ] as const) {
    it(`yield the recorded text when they are rewritten: ${folder}`, () => {
      const states = join(import.meta.dirname, "../..", folder, "states");
      const [base = {}] = parseStates(readFileSync(join(states, baseFile), "utf8"), {});
      for (const name of list()) {
        const text = readFileSync(join(states, `${name}.txt`), "utf8");
        const recorded = read(name).steps.map((step) => step.recorded);
        assert.equal(formatStates(recorded, base), text, name);
      }
    });
  }

  for (const [damage, edits, error] of [
    ["removes a line that does not exist", "1- c", /Line 1 of the previous state is not "c"/],
    ["goes backwards", "2- b\n1- a", /Not in place: "1- a"/],
    ["is beyond the end", "3+ c", /Not in place: "3\+ c"/],
    ["has no line number", "c", /Not in place: "c"/],
  ] as const) {
    it(`fail if a difference ${damage}`, () => {
      const text = `== step0\n-- ipvs\n${edits}\n`;
      assert.throws(() => parseStates(text, { ipvs: "a\nb\n" }), error);
    });
  }

  it("fail if a line is outside a step or a file", () => {
    assert.throws(() => parseStates("1- a\n", {}), /Not the head of a step/);
    assert.throws(() => parseStates("== step0\n1- a\n", {}), /Not the head of a recorded file/);
    assert.throws(() => parseStates("== step0\n-- other\n", {}), /Not the head of a recorded file/);
  });
});
