/**
 * Tests that planning yields in small steps, so that the event loop can run even while a very large Service is being
 * planned.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRules } from "../../../../src/plan/iptables/planner.ts";
import { sharedChains } from "../../../../src/plan/iptables/shared-chains.ts";
import { TablesPlan } from "../../../../src/plan/iptables/tables-plan.ts";
import { iptablesOptions } from "../../../support/iptables-records.ts";
import {
  endpointRecord,
  portRecord,
  serviceRecord,
  sliceRecord,
} from "../../../support/records.ts";

const portCount = 200;
const protocol = "UDP";
const ports = Array.from({ length: portCount }, (_, index) =>
  portRecord({ name: `p${index}`, protocol, port: 1_000 + index }),
);

/** A plan of one Service with this number of UDP ports, and the planned IPv4 rules. */
function planned(): { readonly plan: TablesPlan; readonly service: ServiceRules } {
  const made: ServiceRules[] = [];
  const plan = new TablesPlan({ startedAtMs: 0, onPlan: (one) => made.push(one) });
  plan.tracker.noteService(undefined, serviceRecord({ ports, type: "NodePort" }));
  const endpoints = [endpointRecord("10.244.1.10"), endpointRecord("10.244.2.11")];
  const slicePorts = ports.map(({ name }) => ({ name, protocol, port: 8_080 }) as const);
  plan.tracker.noteSlice(undefined, sliceRecord(endpoints, { ports: slicePorts }));
  for (const _ of plan.update(iptablesOptions()));
  const service = made.find(({ family }) => family === "IPv4");
  assert.ok(service);
  return { plan, service };
}

describe("the plan of iptables mode", () => {
  it("replaces one service port per step", () => {
    const { plan, service } = planned();
    assert.equal([...plan.desired.replace(service)].length, portCount);
    assert.equal([...plan.desired.replace({ ...service, servicePorts: [] })].length, portCount);
    assert.equal(plan.desired.endpointCount("IPv4"), 0);
  });

  it("creates one shared chain per step, and unchanged ones only once", () => {
    const { plan } = planned();
    assert.equal([...plan.ruleSetInSteps("IPv4")].length, sharedChains.length);
    assert.equal([...plan.ruleSetInSteps("IPv4")].length, 0, "nothing has changed");
  });

  it("shares the answers of a service port between its UDP destinations", () => {
    const { plan } = planned();
    const byAnswers = Map.groupBy(plan.desired.udpDestinations(), ({ answers }) => answers);
    assert.equal(byAnswers.size, portCount);
  });
});
