/** Tests that the counts for metrics remain correct when plans are added and removed. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { TablesPlan } from "../../../../src/plan/iptables/tables-plan.ts";
import { iptablesOptions } from "../../../support/iptables-records.ts";
import { endpointRecord, serviceRecord, sliceRecord } from "../../../support/records.ts";

const options = iptablesOptions();
const local = serviceRecord({ isInternalPolicyLocal: true });
const elsewhere = [endpointRecord("10.244.2.11"), endpointRecord("10.244.2.12")];
const here = endpointRecord("10.244.1.10", { nodeName: options.shared.place.nodeName });

/**
 * Numbers of endpoints, and of service ports without local endpoints by internal and external policy, in IPv4 and IPv6.
 */
function counts(plan: TablesPlan): readonly (readonly number[])[] {
  for (const _ of plan.update(options));
  return (["IPv4", "IPv6"] as const).map((family) => [
    plan.desired.endpointCount(family),
    plan.desired.withoutLocalEndpoints("internal", family),
    plan.desired.withoutLocalEndpoints("external", family),
  ]);
}

describe("counts of the desired tables", () => {
  it("follow a Service from its first remote endpoints to its deletion", () => {
    const plan = new TablesPlan({ startedAtMs: 0, onPlan: () => {} });
    plan.tracker.noteService(undefined, local);
    plan.tracker.noteSlice(undefined, sliceRecord(elsewhere));
    assert.deepEqual(counts(plan), [
      [2, 1, 0],
      [0, 0, 0],
    ]);
    plan.tracker.noteSlice(sliceRecord(elsewhere), sliceRecord([...elsewhere, here]));
    assert.deepEqual(counts(plan)[0], [3, 0, 0]);
    plan.tracker.noteSlice(sliceRecord([...elsewhere, here]), sliceRecord(elsewhere));
    assert.deepEqual(counts(plan)[0], [2, 1, 0]);
    plan.tracker.noteService(local, undefined);
    assert.deepEqual(counts(plan)[0], [0, 0, 0]);
  });

  it("distinguish the policies", () => {
    const plan = new TablesPlan({ startedAtMs: 0, onPlan: () => {} });
    const external = serviceRecord({ type: "NodePort", isExternalPolicyLocal: true });
    plan.tracker.noteService(undefined, external);
    plan.tracker.noteSlice(undefined, sliceRecord(elsewhere));
    assert.deepEqual(counts(plan)[0], [2, 0, 1]);
  });
});
