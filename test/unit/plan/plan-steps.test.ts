/**
 * Tests that planning yields within a large Service, which would otherwise block the event loop, and that objects which
 * arrive while it has yielded wait for the next plan.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { finish } from "../../../src/base/time-slice.ts";
import { ListenerPlan } from "../../../src/daemon/userspace/listener-plan.ts";
import { ClusterPlan } from "../../../src/plan/cluster-plan.ts";
import { TablesPlan } from "../../../src/plan/iptables/tables-plan.ts";
import { serviceListenersInSteps } from "../../../src/userspace/service-listeners.ts";
import { iptablesOptions } from "../../support/iptables-records.ts";
import {
  endpointRecord,
  ip,
  planOptions,
  portRecord,
  serviceRecord,
  sliceRecord,
} from "../../support/records.ts";

const ports = Array.from({ length: 300 }, (_, index) =>
  portRecord({ name: `p${index}`, port: 80 + index }),
);
const slices = Array.from({ length: 200 }, (_, index) =>
  sliceRecord([endpointRecord(`10.244.1.${index + 1}`)], {
    name: `default/a-${index}`,
    ports: [{ name: "p0", protocol: "TCP", port: 8080 }],
  }),
);

function stepsOf(plan: ClusterPlan | TablesPlan, steps: () => Iterable<void>): number {
  plan.tracker.noteService(undefined, serviceRecord({ ports }));
  for (const slice of slices) plan.tracker.noteSlice(undefined, slice);
  return [...steps()].length;
}

describe("planning one large Service", () => {
  it("yields after each slice and port in IPVS mode, while planning and applying the plan", () => {
    const plan = new ClusterPlan({ startedAtMs: 0, onPlan() {} });
    const count = stepsOf(plan, () => plan.update(planOptions()));
    assert.ok(count >= slices.length + 2 * ports.length, String(count));
  });

  it("yields after each slice and port in iptables mode", () => {
    const plan = new TablesPlan({ startedAtMs: 0, onPlan() {} });
    const count = stepsOf(plan, () => plan.update(iptablesOptions()));
    assert.ok(count >= slices.length + ports.length, String(count));
  });

  it("yields after each slice and port in userspace mode", () => {
    const listeners = serviceListenersInSteps(serviceRecord({ ports }), slices, planOptions());
    const count = [...listeners].length;
    assert.ok(count >= slices.length + ports.length, String(count));
  });

  it("sorts many endpoints in steps, in the same order", () => {
    const many = (count: number) => {
      const plan = new ClusterPlan({ startedAtMs: 0, onPlan() {} });
      plan.tracker.noteService(undefined, serviceRecord());
      const endpoints = Array.from({ length: count }, (_, index) =>
        endpointRecord(`10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`),
      );
      plan.tracker.noteSlice(undefined, sliceRecord(endpoints));
      const steps = [...plan.update(planOptions())].length;
      const [planned] = plan.desired.plansOf("default/a", "IPv4");
      const servers = planned?.virtualServers[0]?.realServers ?? [];
      return { steps, servers: servers.map(({ address }) => address) };
    };
    const { steps, servers } = many(20_000);
    assert.ok(steps > 20, String(steps));
    assert.equal(new Set(servers).size, 20_000);
    const few = many(900).servers;
    const place = new Map(servers.map((address, index) => [address, index]));
    assert.deepEqual(
      few,
      few.toSorted((one, other) => (place.get(one) ?? 0) - (place.get(other) ?? 0)),
    );
  });
});

/**
 * The plan's options reserve the addresses of Nodes that Services named when planning began. A Service that names one
 * while its neighbor is being planned must not be planned with those options.
 */
describe("a Service that changes while others are being planned", () => {
  const nodeAddress = "192.168.10.12";
  const before = serviceRecord({ name: "default/b", type: "LoadBalancer" });
  const after = { ...before, loadBalancerIps: [ip(nodeAddress)] };

  /** Returns whether the first update, and then the second, planned the address that the Service named meanwhile. */
  function plansWithAddress(
    { tracker }: Pick<ClusterPlan, "tracker">,
    update: () => Generator<void, unknown>,
    takePlanned: () => unknown,
  ): readonly boolean[] {
    tracker.noteService(undefined, serviceRecord({ ports }));
    tracker.noteService(undefined, before);
    return [true, false].map((isFirst) => {
      const steps = update();
      steps.next();
      if (isFirst) tracker.noteService(before, after);
      finish(steps);
      return JSON.stringify(takePlanned()).includes(nodeAddress);
    });
  }

  it("is planned by the next update in IPVS mode", () => {
    const planned: unknown[] = [];
    const plan = new ClusterPlan({ startedAtMs: 0, onPlan: (one) => planned.push(one) });
    const options = planOptions();
    const found = plansWithAddress(
      plan,
      () => plan.update(options),
      () => planned.splice(0),
    );
    assert.deepEqual(found, [false, true]);
  });

  it("is planned by the next update in iptables mode", () => {
    const planned: unknown[] = [];
    const plan = new TablesPlan({ startedAtMs: 0, onPlan: (one) => planned.push(one) });
    const options = iptablesOptions();
    const found = plansWithAddress(
      plan,
      () => plan.update(options),
      () => planned.splice(0),
    );
    assert.deepEqual(found, [false, true]);
  });

  it("is planned by the next update in userspace mode", () => {
    const planned: unknown[] = [];
    const plan = new ListenerPlan({ startedAtMs: 0 });
    function* update(): Generator<void, void> {
      planned.push(...(yield* plan.update(planOptions())).changed.values());
    }
    const found = plansWithAddress(plan, update, () => planned.splice(0));
    assert.deepEqual(found, [false, true]);
  });
});
