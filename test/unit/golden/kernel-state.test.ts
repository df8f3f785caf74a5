/** Tests the comparison that the golden tests use: every change of a single line must be detected. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { compareStates, type KernelState, stateFiles } from "../../golden/kernel-state.ts";
import { listScenarios, readScenario } from "../../golden/scenario.ts";

const recorded: readonly { readonly name: string; readonly state: KernelState }[] =
  listScenarios().flatMap((scenario) =>
    readScenario(scenario).steps.map((step, index) => ({
      name: `${scenario}/step${index}`,
      state: step.recorded,
    })),
  );

type Mutation = (lines: readonly string[]) => readonly string[];

const mutations: Readonly<Record<string, Mutation>> = {
  "a line is missing": (lines) => lines.toSpliced(Math.floor(lines.length / 2), 1),
  "a line is added": (lines) => lines.toSpliced(Math.floor(lines.length / 2), 0, "new"),
  "the last character of a line differs": (lines) =>
    lines.with(
      0,
      (lines[0] ?? "").replace(/.$/, (last) => (last === "x" ? "y" : "x")),
    ),
  "a line is duplicated": (lines) => [...lines, lines.at(-1) ?? ""],
};

describe("states", () => {
  it("are recorded for every step", () => {
    assert.equal(recorded.length, 124);
    for (const { name, state } of recorded) {
      const files = stateFiles.filter((file) => file !== "health" && state[file] === undefined);
      assert.deepEqual(files, [], name);
    }
  });

  it("do not differ from themselves", () => {
    for (const { name, state } of recorded) assert.deepEqual(compareStates(state, state), [], name);
  });

  for (const file of stateFiles) {
    for (const [what, mutate] of Object.entries(mutations)) {
      it(`differ if in ${file} ${what}`, () => {
        const holders = recorded.filter(({ state }) => (state[file] ?? "") !== "");
        assert.ok(holders.length > 0);
        for (const { name, state } of holders) {
          const lines = (state[file] ?? "").trimEnd().split("\n");
          const actual = { ...state, [file]: `${mutate(lines).join("\n")}\n` };
          const differences = compareStates(state, actual);
          assert.ok(differences.length > 0, name);
          assert.ok(
            differences.every((difference) => difference.file === file),
            name,
          );
        }
      });
    }
  }

  it("differ if two rules of a chain are swapped", () => {
    const recordedRules = ":A -\n-A A -j B\n-A A -j C\n";
    const actual = { iptables: ":A -\n-A A -j C\n-A A -j B\n" };
    assert.deepEqual(compareStates({ iptables: recordedRules }, actual), [
      { file: "iptables", side: "missing", line: "-A A -j B (not in its place)" },
    ]);
  });
});
