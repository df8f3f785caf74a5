/** Tests that kube-ipvs's kernel state equals kube-proxy's line by line. See test/golden/README.md. */
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
import { unlessIptables } from "../support/rules-writer.ts";
import { isLong } from "../support/seeds.ts";

/**
 * The short form contains the scenarios that the unit tests on the fake kernel skip or test only partly, and one scenario
 * of each other kind. The long form contains all scenarios.
 */
const shortForm: readonly string[] = [
  // Scenarios with shell lines, foreign objects, sysctls, IPVS timeouts, or health check answers.
  ...["cfg-exclude-cidrs", "pre-dirty-kernel", "cfg-strict-arp", "cfg-timeouts"],
  ...["lb-local-none-here", "step-address-appears"],
  // Scenarios that differ in rules, sets or flags.
  ...["cfg-detect-bridge", "cfg-masquerade-all", "cfg-masquerade-bit", "cfg-scheduler-mh"],
  ...["dual-stack-lb", "external-ips-local", "internal-local", "ipv6-mixed-external"],
  ...["lb-affinity", "lb-source-range-host", "nodeport-addresses", "nodeport-local-sctp"],
  // Scenarios with changes.
  ...["step-all-deleted", "step-becomes-headless", "step-lb-ip-change", "step-policy-local"],
];

const only = process.env["GOLDEN_ONLY"]?.split(",") ?? (isLong ? undefined : shortForm);
const names = only ?? listScenarios();

/** Number of comparisons and matches per file, over all steps of all scenarios. */
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
    const scenario = readScenario(name);
    const usesIptables = scenario.pre.some((line) => /^ip(?:tables|set) /.test(line));
    const skip = usesIptables && unlessIptables("third-party rules and sets are written first");
    it(name, { skip }, async () => {
      const steps = await runInProcess(scenario);
      for (const [index, step] of steps.entries()) {
        count(scenario.steps[index]?.recorded ?? {}, step);
      }
      assert.equal(text(steps), "");
    });
  }
});
