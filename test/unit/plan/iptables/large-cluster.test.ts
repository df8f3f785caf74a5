import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { toServiceName } from "../../../../src/base/service-name.ts";
import type { IptablesNodeOptions } from "../../../../src/plan/iptables/options.ts";
import { TablesPlan } from "../../../../src/plan/iptables/tables-plan.ts";
import type { Rule } from "../../../../src/state/rule.ts";
import { iptablesOptions } from "../../../support/iptables-records.ts";
import { endpointRecord, serviceRecord, sliceRecord } from "../../../support/records.ts";

function update(plan: TablesPlan, options: IptablesNodeOptions): void {
  for (const _ of plan.update(options));
}

/** A slice with this number of endpoints. */
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
  it("have comments for up to 1,000 endpoints, lose them above that number, and have them again below it", () => {
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

  it("are planned again once the cluster is found to be large, without removed endpoints", () => {
    let planned = 0;
    const plan = new TablesPlan({ startedAtMs: 0, onPlan: () => (planned += 1) });
    const gone = serviceRecord({ name: "default/0" });
    plan.tracker.noteService(undefined, gone);
    update(plan, iptablesOptions());
    assert.match(JSON.stringify(plan.ruleSet("IPv4")), /default\/0:/);
    planned = 0;
    for (let index = 1; index <= 400; index++) {
      const service = toServiceName(`default/${index}`);
      const own = [`10.244.${index >> 8}.${index & 255}`, `10.245.${index >> 8}.${index & 255}`];
      plan.tracker.noteService(undefined, serviceRecord({ name: service }));
      const endpoints = [...own, "10.1.0.1", "10.1.0.2", "10.1.0.3"].map((address) =>
        endpointRecord(address),
      );
      plan.tracker.noteSlice(undefined, sliceRecord(endpoints, { name: `${service}-1`, service }));
    }
    plan.tracker.noteService(gone, undefined);
    update(plan, iptablesOptions());
    // 201 Services have more than 1,000 endpoints. Then 400 Services and the deleted one are planned, each in two
    // families.
    assert.equal(planned, 2 * (201 + 401));
    assert.ok(!endpointRules(plan).some(hasComment));
    assert.doesNotMatch(JSON.stringify(plan.ruleSet("IPv4")), /default\/0:/);
  });
});
