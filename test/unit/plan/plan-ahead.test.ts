import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ClusterPlan } from "../../../src/plan/cluster-plan.ts";
import { toServerKey } from "../../../src/state/virtual-server.ts";
import { endpointRecord, planOptions, serviceRecord, sliceRecord } from "../../support/records.ts";

const key = toServerKey("TCP 10.96.0.10:80");
const options = planOptions();
const first = sliceRecord([endpointRecord("10.244.2.11")]);
const second = sliceRecord([endpointRecord("10.244.2.12")], { name: "default/a-2" });

function newPlan(): ClusterPlan {
  return new ClusterPlan({ startedAtMs: 0, onPlan: () => {} });
}

function serversOf(plan: ClusterPlan): readonly string[] {
  const [planned = key] = plan.desired.virtualServerKeys();
  return (plan.desired.virtualServer(planned)?.realServers ?? []).map(({ address }) => address);
}

/** Runs the generator to its end and returns its result. */
function last<T>(steps: Iterator<unknown, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

describe("a plan while lists arrive", () => {
  it("contains a Service once one of its slices has arrived, and again when another one arrives", () => {
    const plan = newPlan();
    plan.tracker.noteService(undefined, serviceRecord());
    last(plan.updateAhead(options));
    assert.equal(plan.tracker.pendingCount, 1);
    plan.tracker.noteSlice(undefined, first);
    last(plan.updateAhead(options));
    assert.equal(plan.tracker.pendingCount, 0);
    assert.deepEqual(serversOf(plan), ["10.244.2.11"]);
    plan.tracker.noteSlice(undefined, second);
    assert.deepEqual(last(plan.update(options)).services, ["default/a"]);
    assert.deepEqual([...serversOf(plan)].sort(), ["10.244.2.11", "10.244.2.12"]);
  });

  it("is part of the next update, and keeps the start time of its changes", () => {
    const plan = newPlan();
    plan.tracker.noteService(undefined, serviceRecord());
    plan.tracker.noteSlice(undefined, { ...first, triggeredAtMs: 5 });
    last(plan.updateAhead(options));
    const { services, triggers } = last(plan.update(options));
    assert.deepEqual(services, ["default/a"]);
    assert.deepEqual(triggers, [{ family: "IPv4", timeMs: 5 }]);
    assert.deepEqual(last(plan.update(options)).services, []);
  });

  it("is not repeated by the next update if nothing changed", () => {
    let planned = 0;
    const onPlan = (): void => {
      planned += 1;
    };
    const plan = new ClusterPlan({ startedAtMs: 0, onPlan });
    plan.tracker.noteService(undefined, serviceRecord());
    plan.tracker.noteSlice(undefined, first);
    last(plan.updateAhead(options));
    assert.equal(planned, options.families.size);
    assert.deepEqual(last(plan.update(options)).services, ["default/a"]);
    assert.equal(planned, options.families.size);
  });

  it("is repeated with other options", () => {
    const plan = newPlan();
    plan.tracker.noteService(undefined, serviceRecord());
    plan.tracker.noteSlice(undefined, first);
    last(plan.updateAhead(options));
    last(plan.update(planOptions({ scheduler: "wrr" })));
    const [planned = key] = plan.desired.virtualServerKeys();
    assert.equal(plan.desired.virtualServer(planned)?.virtualServer.scheduler, "wrr");
  });

  it("omits a Service with a slow start, because its last endpoints are not new", () => {
    const annotations = { "kube-ipvs.io/scheduler": "wrr", "kube-ipvs.io/slow-start": "90s" };
    const plan = newPlan();
    plan.tracker.noteService(undefined, serviceRecord({ annotations }));
    plan.tracker.noteSlice(undefined, first);
    last(plan.updateAhead(options));
    assert.equal(plan.tracker.pendingCount, 1);
    plan.tracker.noteSlice(undefined, second);
    last(plan.update(options));
    assert.equal(plan.nextRampMs, undefined);
  });

  it("contains nothing about a Service that is removed before the lists are complete", () => {
    const plan = newPlan();
    plan.tracker.noteService(undefined, serviceRecord());
    plan.tracker.noteSlice(undefined, first);
    last(plan.updateAhead(options));
    plan.tracker.noteService(serviceRecord(), undefined);
    last(plan.update(options));
    assert.deepEqual([...plan.desired.virtualServerKeys()], []);
  });
});
