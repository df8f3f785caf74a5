import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  emptyNetwork,
  endpointAddresses,
  readNodeNetwork,
  sameNetwork,
} from "../../../src/daemon/node-network.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { nodeAddress } from "../../support/fake-kernel/fake-link.ts";
import { endpointRecord, ip, sliceRecord } from "../../support/records.ts";

describe("the node's network", () => {
  it("is its addresses, and what it must not take for itself", async () => {
    const { bound, ofNode, reserved } = await readNodeNetwork(new FakeKernel(), [ip("10.0.0.9")]);
    assert.equal(bound, undefined);
    assert.deepEqual([...ofNode], ["192.168.10.11", "fd00:10::11", "172.16.5.11"]);
    assert.deepEqual(Object.fromEntries(reserved), {
      "192.168.10.255": "broadcast-address",
      "172.16.5.255": "broadcast-address",
      "10.0.0.9": "api-server-address",
      "192.168.10.1": "gateway-address",
      "fd00:10::1": "gateway-address",
    });
  });

  it("has no broadcast of single hosts and links between two", async () => {
    const kernel = new FakeKernel();
    kernel.link.gateways = [];
    kernel.link.setNodeAddresses([
      nodeAddress("10.0.0.1", 32, 2),
      nodeAddress("10.0.0.2", 31, 2),
      nodeAddress("10.0.0.5", 30, 2),
    ]);
    const { reserved } = await readNodeNetwork(kernel, []);
    assert.deepEqual([...reserved.keys()], ["10.0.0.7"]);
  });

  it("is another one when a gateway changes, in whatever order it is read", async () => {
    const kernel = new FakeKernel();
    const before = await readNodeNetwork(kernel, []);
    kernel.link.gateways = kernel.link.gateways.toReversed();
    assert.ok(sameNetwork(before, await readNodeNetwork(kernel, [])));
    kernel.link.gateways = [ip("192.168.10.2")];
    assert.ok(!sameNetwork(before, await readNodeNetwork(kernel, [])));
    assert.ok(!sameNetwork(before, emptyNetwork));
  });

  it("knows the API servers by the endpoints of their Service", () => {
    const slices = [
      sliceRecord([endpointRecord("10.0.0.1")]),
      sliceRecord([endpointRecord("10.0.0.2")]),
    ];
    assert.deepEqual(endpointAddresses(slices), ["10.0.0.1", "10.0.0.2"]);
  });
});
