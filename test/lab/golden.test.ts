/** What kube-ipvs leaves in the kernel is, line by line, what kube-proxy left. See test/golden/README.md. */
import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { runInProcess } from "../golden/in-process.ts";
import {
  type Difference,
  differenceText,
  type KernelState,
  type StateFile,
  stateFiles,
} from "../golden/kernel-state.ts";
import { listScenarios, readScenario } from "../golden/scenario.ts";

const only = process.env["GOLDEN_ONLY"]?.split(",");
const names = listScenarios().filter((name) => only?.includes(name) ?? true);

/** How often each file was compared, and how often it matched, in all steps of all scenarios. */
const tally = new Map<StateFile, { compared: number; matched: number }>();
let stepCount = 0;

function count(recorded: KernelState, differences: readonly Difference[]): void {
  stepCount += 1;
  for (const file of stateFiles) {
    if (recorded[file] === undefined) continue;
    const { compared, matched } = tally.get(file) ?? { compared: 0, matched: 0 };
    const isDifferent = differences.some((difference) => difference.file === file);
    tally.set(file, { compared: compared + 1, matched: matched + (isDifferent ? 0 : 1) });
  }
}

function printTally(): void {
  console.log(`golden: ${names.length} scenarios, ${stepCount} steps`);
  for (const [file, { compared, matched }] of tally) {
    console.log(`golden: ${file.padEnd(9)} ${matched} of ${compared} match`);
  }
}

function text(steps: readonly (readonly Difference[])[]): string {
  return steps
    .flatMap((differences, index) =>
      differences.map((difference) => `step${index} ${differenceText(difference)}`),
    )
    .join("\n");
}

describe("golden states, in process", () => {
  after(printTally);

  for (const name of names) {
    it(name, async () => {
      const scenario = readScenario(name);
      const steps = await runInProcess(scenario);
      for (const [index, step] of steps.entries()) {
        count(scenario.steps[index]?.recorded ?? {}, step);
      }
      assert.equal(text(steps), "");
    });
  }
});
