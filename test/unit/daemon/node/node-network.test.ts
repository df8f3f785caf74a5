import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  emptyNetwork,
  keptGateways,
  readNodeNetwork,
  sameNetwork,
  sliceEndpoints,
} from "../../../../src/daemon/node/node-network.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { nodeAddress } from "../../../support/fake-kernel/fake-link.ts";
import { endpointRecord, ip, sliceRecord } from "../../../support/records.ts";

describe("the node's network", () => {
  it("contains its addresses, and the addresses that must not be bound", async () => {
    const { bound, ofNode, reserved } = await readNodeNetwork(new FakeKernel(), () => ({
      apiServers: [{ address: ip("10.0.0.9"), port: 6443 }],
      nodeAddresses: [ip("192.168.10.12"), ip("192.168.10.1")],
    }));
    assert.equal(bound, undefined);
    assert.deepEqual([...ofNode], ["192.168.10.11", "fd00:10::11", "172.16.5.11"]);
    assert.deepEqual(Object.fromEntries(reserved), {
      "192.168.10.12": "other-node-address",
      "192.168.10.1": "other-node-address",
      "192.168.10.255": "broadcast-address",
      "172.16.5.255": "broadcast-address",
      "10.0.0.9": "api-server-address",
      "fd00:10::1": "gateway-address",
    });
  });

  it("has no broadcast address for single hosts and point-to-point links", async () => {
    const kernel = new FakeKernel();
    kernel.link.gateways = [];
    kernel.link.setNodeAddresses([
      nodeAddress("10.0.0.1", 32, 2),
      nodeAddress("10.0.0.2", 31, 2),
      nodeAddress("10.0.0.5", 30, 2),
    ]);
    const { reserved } = await readNodeNetwork(kernel, () => ({ apiServers: [] }));
    assert.deepEqual([...reserved.keys()], ["10.0.0.7"]);
  });

  it("differs if a gateway changes, regardless of the order in which gateways are read", async () => {
    const kernel = new FakeKernel();
    const before = await readNodeNetwork(kernel, () => ({ apiServers: [] }));
    kernel.link.gateways = kernel.link.gateways.toReversed();
    assert.ok(sameNetwork(before, await readNodeNetwork(kernel, () => ({ apiServers: [] }))));
    kernel.link.gateways = [ip("192.168.10.2")];
    assert.ok(!sameNetwork(before, await readNodeNetwork(kernel, () => ({ apiServers: [] }))));
    assert.ok(!sameNetwork(before, emptyNetwork));
  });

  it("contains the API servers from the endpoints of their Service", () => {
    const slices = [
      sliceRecord([endpointRecord("10.0.0.1")]),
      sliceRecord([endpointRecord("10.0.0.2")]),
    ];
    assert.deepEqual(sliceEndpoints(slices), [
      { address: "10.0.0.1", port: 8080 },
      { address: "10.0.0.2", port: 8080 },
    ]);
  });

  it("differs if an API server moves to another port", async () => {
    const kernel = new FakeKernel();
    const at = (port: number) =>
      readNodeNetwork(kernel, () => ({ apiServers: [{ address: ip("10.0.0.9"), port }] }));
    assert.ok(!sameNetwork(await at(6443), await at(443)));
  });

  it("keeps a removed gateway until another one of its family exists", () => {
    const [a, b, c, six] = [ip("10.0.0.1"), ip("10.1.0.1"), ip("10.0.0.2"), ip("fd00::1")];
    const after = (...reads: readonly (readonly ReturnType<typeof ip>[])[]): readonly string[] =>
      [
        ...reads.reduce<ReadonlySet<ReturnType<typeof ip>>>(
          (previous, listed) => keptGateways(listed, previous),
          new Set(),
        ),
      ].sort();
    assert.deepEqual(after([a, six], []), [a, six]);
    assert.deepEqual(after([a, b], [a], [a]), [a, b]);
    assert.deepEqual(after([a, six], [], [a, six]), [a, six]);
    assert.deepEqual(after([a, six], [c, six]), [c, six]);
    assert.deepEqual(after([a, six], [], [c]), [c, six]);
  });

  it("has no IPv6 if the link's own setting, or that of new links, disables it", async () => {
    const kernel = new FakeKernel();
    const isDisabled = async () =>
      (await readNodeNetwork(kernel, () => ({ apiServers: [] }))).isIpv6Disabled;
    assert.equal(await isDisabled(), false);
    kernel.sysctl.values.set("net/ipv6/conf/default/disable_ipv6", "1");
    assert.equal(await isDisabled(), true);
    kernel.sysctl.values.set("net/ipv6/conf/kube-ipvs0/disable_ipv6", "0");
    assert.equal(await isDisabled(), false);
  });
});
