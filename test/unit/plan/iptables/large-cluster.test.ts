import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { IptablesNodeOptions } from "../../../../src/plan/iptables/options.ts";
import { TablesPlan } from "../../../../src/plan/iptables/tables-plan.ts";
import type { Rule } from "../../../../src/state/rule.ts";
import { iptablesOptions } from "../../../support/iptables-records.ts";
import { endpointRecord, serviceRecord, sliceRecord } from "../../../support/records.ts";

function update(plan: TablesPlan, options: IptablesNodeOptions): void {
  for (const _ of plan.update(options));
}

/** A slice of so many endpoints. */
function slice(count: number): ReturnType<typeof sliceRecord> {
  const address = (index: number): string => `10.244.${index >> 8}.${index & 255}`;
  return sliceRecord(Array.from({ length: count }, (_, index) => endpointRecord(address(index))));
}

function hasComment({ matches }: Rule): boolean {
  return matches.some(({ kind }) => kind === "comment");
}

function endpointRules(plan: TablesPlan): readonly Rule[] {
  const { chains } = plan.ruleSet("IPv4");
  return chains.filter(({ name }) => name.startsWith("KUBE-SEP-")).flatMap(({ rules }) => rules);
}

describe("rules of endpoints", () => {
  it("carry comments up to 1,000 endpoints, none above, and again below", () => {
    const options = iptablesOptions();
    const plan = new TablesPlan({ startedAtMs: 0, onPlan: () => {} });
    plan.tracker.noteService(undefined, serviceRecord());
    plan.tracker.noteSlice(undefined, slice(1_000));
    update(plan, options);
    assert.ok(endpointRules(plan).every(hasComment));

    plan.tracker.noteSlice(slice(1_000), slice(1_001));
    update(plan, options);
    assert.equal(endpointRules(plan).length, 2_002);
    assert.ok(!endpointRules(plan).some(hasComment));

    plan.tracker.noteSlice(slice(1_001), slice(2));
    update(plan, options);
    assert.ok(endpointRules(plan).every(hasComment));
  });
});
