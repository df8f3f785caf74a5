/**
 * Uses the whole daemon to test which Service owns an address that several Services claim, during a run and after
 * restarts.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { toClaimKey } from "../../../src/plan/claims/claimed-keys.ts";
import { toServerKey } from "../../../src/state/virtual-server.ts";
import { FakeNode } from "../../support/fake-node.ts";
import type { NamedObject } from "../../support/memory-source.ts";
import { type ApiObject, endpointSlice, service, servicePort } from "../../support/objects.ts";

const address = "198.51.100.7";
const pods: Readonly<Record<string, string>> = { old: "10.244.2.1", young: "10.244.2.2" };
const created: Readonly<Record<string, string>> = {
  old: "2026-01-01T00:00:00Z",
  young: "2026-02-02T00:00:00Z",
};

/** Returns a Service with or without the address as an external IP. */
function claiming(name: string, isClaiming = true): NamedObject {
  return named(
    service({
      name,
      clusterIps: [name === "old" ? "10.96.0.21" : "10.96.0.22"],
      ports: [servicePort()],
      metadata: { creationTimestamp: created[name] },
      spec: isClaiming ? { externalIPs: [address] } : {},
    }),
  );
}

function sliceOf(name: string, pod = pods[name] ?? ""): NamedObject {
  return named(endpointSlice({ name: `${name}-a`, service: name, endpoints: [pod] }));
}

function named(object: ApiObject): NamedObject {
  return object as unknown as NamedObject;
}

/** The young Service is served, then the old one also claims the address. */
async function contested(): Promise<FakeNode> {
  const node = new FakeNode({});
  node.source.apply(claiming("young"), sliceOf("young"), claiming("old", false), sliceOf("old"));
  await node.start();
  await node.settle();
  node.source.apply(claiming("old"));
  await node.comeToRest();
  return node;
}

/** Names of the Services whose pods serve the address. */
function served(node: FakeNode): readonly string[] {
  const server = node.kernel.ipvs
    .peek()
    .find(({ virtualServer }) => virtualServer.address === address);
  const behind = (server?.realServers ?? [])
    .filter(({ weight }) => weight > 0)
    .map((real) => real.address as string);
  return Object.keys(pods).filter((name) => behind.includes(pods[name] ?? ""));
}

/** Number of real server reads by key during a start. */
async function readsOf(node: FakeNode): Promise<number> {
  let count = 0;
  const end = node.kernel.operations.failWhere(({ facility, action }) => {
    if (facility === "ipvs" && action === "read-real-servers") count += 1;
    return false;
  }, 1);
  await node.start();
  await node.settle();
  end();
  return count;
}

describe("an address that a younger Service owns", () => {
  it("stays with its owner when an older Service claims it, which is reported", async () => {
    const node = await contested();
    assert.deepEqual(served(node), ["young"]);
    assert.deepEqual(
      node.view.history.conflicts.map(
        ({ service: name, note, remedy }) => `${name}: ${note}; ${remedy}`,
      ),
      [
        `default/old: TCP ${address}:80 is served for Service default/young, which owned it before; give Service default/old a different address or port`,
      ],
    );
    await node.stop();
  });

  it("stays with its owner after a restart", async () => {
    const node = await contested();
    await node.restart();
    await node.comeToRest();
    assert.deepEqual(served(node), ["young"]);
    await node.stop();
  });

  it("stays with its owner if the program is killed at any change that causes the conflict", async () => {
    for (let nth = 1; nth <= 6; nth += 1) {
      const node = new FakeNode({});
      node.source.apply(claiming("young"), sliceOf("young"));
      await node.start();
      await node.settle();
      node.source.apply(claiming("old"), sliceOf("old"));
      await node.kill(nth);
      await node.comeToRest();
      assert.deepEqual(served(node), ["young"], `killed at change ${nth}`);
      await node.stop();
    }
  });

  it("stays with its owner if the conflict arises while the program is stopped", async () => {
    const node = new FakeNode({});
    node.source.apply(claiming("young"), sliceOf("young"));
    await node.start();
    await node.settle();
    await node.stop();
    node.source.apply(claiming("old"), sliceOf("old"));
    await node.start();
    await node.comeToRest();
    assert.deepEqual(served(node), ["young"]);
    assert.equal(node.holders().get(toClaimKey(`TCP ${address}:80`))?.service, "default/young");
    await node.restart();
    await node.comeToRest();
    assert.deepEqual(served(node), ["young"]);
    await node.stop();
  });

  it("stays with its owner without a record while its pods are the real servers of the address", async () => {
    const node = await contested();
    node.loseHolders();
    await node.restart();
    await node.comeToRest();
    assert.deepEqual(served(node), ["young"]);
    await node.stop();
  });

  it("moves to the older Service without a record if no endpoint identifies the owner", async () => {
    const node = await contested();
    await node.stop();
    node.loseHolders();
    node.source.apply(sliceOf("young", "10.244.9.9"));
    await node.start();
    await node.comeToRest();
    assert.deepEqual(served(node), ["old"]);
    await node.stop();
  });

  it("stays with its owner in the record even if its pods changed", async () => {
    const node = await contested();
    await node.stop();
    // A pod of one Service now has the former address of the other Service's pod.
    node.source.apply(sliceOf("old", pods["young"]), sliceOf("young", "10.244.9.9"));
    await node.start();
    await node.comeToRest();
    assert.equal(
      node.view.plan.desired.claimantOf(toServerKey(`TCP ${address}:80`)),
      "default/young:http",
    );
    await node.stop();
  });

  it("moves to the next Service when its owner stops claiming it, and stays there", async () => {
    const node = await contested();
    node.source.apply(claiming("young", false));
    await node.comeToRest();
    assert.deepEqual(served(node), ["old"]);
    node.source.apply(claiming("young"));
    await node.restart();
    await node.comeToRest();
    assert.deepEqual(served(node), ["old"]);
    await node.stop();
  });

  it("is decided by age on a node that starts with an empty kernel", async () => {
    const node = new FakeNode({});
    node.source.apply(claiming("young"), sliceOf("young"), claiming("old"), sliceOf("old"));
    await node.start();
    await node.settle();
    assert.deepEqual(served(node), ["old"]);
    await node.stop();
  });
});

describe("a health-check node port that a younger Service owns", () => {
  const healthCheckNodePort = 32_000;
  const balanced = (name: string): NamedObject =>
    named(
      service({
        name,
        type: "LoadBalancer",
        clusterIps: [name === "old" ? "10.96.0.21" : "10.96.0.22"],
        metadata: { creationTimestamp: created[name] },
        spec: { externalTrafficPolicy: "Local", healthCheckNodePort },
      }),
    );
  const answering = async (node: FakeNode): Promise<string> => (await node.state()).health ?? "";

  it("stays with its owner when an older Service claims it, which is reported, and after a restart", async () => {
    const node = new FakeNode({});
    node.source.apply(balanced("young"));
    await node.start();
    await node.settle();
    node.source.apply(balanced("old"));
    await node.comeToRest();
    for (const _ of ["before", "after a restart"]) {
      assert.match(await answering(node), /young/);
      assert.deepEqual(
        node.view.history.conflicts.map(({ service: name, note }) => `${name}: ${note}`),
        [
          `default/old: health-check node port ${healthCheckNodePort} (IPv4) is served for Service default/young, which owned it before`,
        ],
      );
      await node.restart();
      await node.comeToRest();
    }
    await node.stop();
  });
});

describe("a start", () => {
  it("reads no additional kernel state if no address is contested, or if the record names the owner", async () => {
    const calm = new FakeNode({});
    calm.source.apply(claiming("young"), sliceOf("young"));
    await calm.start();
    await calm.settle();
    await calm.stop();
    const usual = await readsOf(calm);
    await calm.stop();
    const node = await contested();
    await node.stop();
    assert.equal(await readsOf(node), usual);
    await node.stop();
    node.loseHolders();
    assert.equal(await readsOf(node), usual + 1);
    await node.stop();
  });
});
