/** Tests that `kube-ipvs explain` reports why a Service address is missing. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { planFacts } from "../../../../src/daemon/operator/plan-facts.ts";
import { FakeNode } from "../../../support/fake-node.ts";
import type { NamedObject } from "../../../support/memory-source.ts";
import { service } from "../../../support/objects.ts";
import { ip } from "../../../support/records.ts";

describe("conflicts in the facts for an explanation", () => {
  it("include those of a Service above its limit, and those about an address that the node needs", async () => {
    const node = new FakeNode({ "kube-ipvs-service-frontend-limit": "2" });
    const spec = { externalIPs: ["192.168.10.1", "203.0.113.5"] };
    node.source.apply(service({ spec }) as unknown as NamedObject);
    await node.start();
    await node.settle();
    const ofService = { kind: "service", namespace: "default", name: "web" } as const;
    const messages = (await planFacts(node.modeView, ofService)).conflicts.map(
      (one) => one.message,
    );
    assert.match(messages.join("\n"), /at most 2 of 3 frontends are served/);
    assert.match(messages.join("\n"), /192\.168\.10\.1 is not bound/);
    const destination = { protocol: "TCP", address: ip("192.168.10.1"), port: 80 } as const;
    const ofAddress = await planFacts(node.modeView, { kind: "destination", destination });
    assert.deepEqual(
      ofAddress.conflicts.map(({ service: name }) => name),
      ["default/web"],
    );
    await node.stop();
  });
});
