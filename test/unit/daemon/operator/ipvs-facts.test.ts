import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PlanFacts } from "../../../../src/answer/answers.ts";
import { type PlanQuery, planTarget, readPlanQuery } from "../../../../src/answer/questions.ts";
import { planFacts } from "../../../../src/daemon/operator/plan-facts.ts";
import { FakeNode } from "../../../support/fake-node.ts";
import type { NamedObject } from "../../../support/memory-source.ts";
import { endpointSlice, node, service } from "../../../support/objects.ts";
import { ip } from "../../../support/records.ts";

const web = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;

function read(target: string): PlanQuery | string {
  return readPlanQuery(new URLSearchParams(target.slice(target.indexOf("?"))));
}

async function ipvsFacts(...asked: Parameters<typeof planFacts>): Promise<PlanFacts> {
  return (await planFacts(...asked)) as PlanFacts;
}

describe("plan facts", () => {
  it("contain the plan for one address and port", async () => {
    const onNode = new FakeNode({});
    const objects = [node(), service(), endpointSlice()] as readonly unknown[];
    onNode.source.apply(...(objects as readonly NamedObject[]));
    await onNode.start();
    await onNode.settle();
    const facts = await ipvsFacts(onNode.view, { kind: "destination", destination: web });
    assert.deepEqual(facts.destinations, [web]);
    assert.deepEqual(
      facts.services.map(({ name }) => name),
      ["web"],
    );
    assert.deepEqual(facts.boundAddresses, ["10.96.0.10"]);
    assert.deepEqual(facts.setEntries["KUBE-CLUSTER-IP"], ["10.96.0.10,tcp:80"]);
    assert.deepEqual(facts.setEntries["KUBE-IPVS-IPS"], ["10.96.0.10"]);
    assert.equal(facts.virtualServers[0]?.virtualServer.scheduler, "rr");
    assert.ok((facts.rules.IPv4?.chains.length ?? 0) > 5);

    const all = await ipvsFacts(onNode.view, {
      kind: "service",
      namespace: "default",
      name: "web",
    });
    assert.deepEqual(all.destinations, [web]);
    const none = await ipvsFacts(onNode.view, { kind: "service", namespace: "shop", name: "web" });
    assert.deepEqual(none.destinations, []);
    const ping = { protocol: "ICMP", address: ip("192.0.2.9"), port: 0 } as const;
    const nothing = await ipvsFacts(onNode.view, { kind: "destination", destination: ping });
    assert.deepEqual(
      [nothing.services, nothing.virtualServers, nothing.boundAddresses],
      [[], [], []],
    );
    await onNode.stop();
  });

  for (const query of [
    { kind: "service", namespace: "shop", name: "web" },
    { kind: "destination", destination: web, from: ip("10.244.1.7") },
    { kind: "destination", destination: { protocol: "ICMP", address: ip("fd00::a"), port: 0 } },
  ] as const satisfies readonly PlanQuery[]) {
    it(`can be requested by ${planTarget(query)}`, () => {
      assert.deepEqual(read(planTarget(query)), query);
    });
  }

  for (const [target, problem] of [
    ["?", /^address: /],
    ["?address=10.0.0.1&protocol=tcp&port=80", /^protocol: /],
    ["?address=10.0.0.1&protocol=TCP&port=65536", /^port: /],
    ["?address=10.0.0.1&protocol=TCP&port=0x50", /^port: /],
    ["?name=web&from=everywhere", /^from: /],
  ] as const) {
    it(`cannot be requested by ${target}`, () => {
      const query = read(target);
      assert.match(typeof query === "string" ? query : "", problem);
    });
  }
});
