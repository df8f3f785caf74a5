import assert from "node:assert/strict";
import { it } from "node:test";
import type { ServerEndpoint } from "../../../../src/api/source.ts";
import { Networks } from "../../../../src/base/networks.ts";
import { KnownNode } from "../../../../src/daemon/node/known-node.ts";
import { rememberServers } from "../../../../src/daemon/node/node-network.ts";
import { FakeKernel } from "../../../support/fake-kernel/fake-kernel.ts";
import { ip } from "../../../support/records.ts";
import { load } from "../../config/loading.ts";

it("addresses of API servers remain reserved after they were used for a connection", () => {
  const [first, second] = [
    { address: ip("10.0.0.9"), port: 6443 },
    { address: ip("10.0.0.8"), port: 443 },
  ];
  let servers: readonly ServerEndpoint[] = [first];
  const known = rememberServers(() => servers);
  assert.deepEqual(known(), [first]);
  servers = [second];
  assert.deepEqual(known(), [first, second]);
  servers = [];
  assert.deepEqual(known(), [first, second]);
});

it("a gateway stays reserved while its routes are missing", async () => {
  const kernel = new FakeKernel();
  const live = { current: load({}).config };
  const node = new KnownNode({ kernel, live, families: ["IPv4"], apiServers: () => [] });
  const before = await node.refresh();
  kernel.link.gateways = [];
  assert.equal((await node.look()).isChanged, false);
  node.noteStale();
  assert.equal(await node.refresh(), before);
});

it("an address of another Node is reserved immediately if a Service claims it while the node is read", async () => {
  const [families, live] = [["IPv4"] as const, { current: load({}).config }];
  const kernel = new FakeKernel();
  // A new object after each change, as OtherNodes returns it.
  const otherNodes = { reserved: new Set([ip("192.168.10.12")]), podNetworks: new Networks() };
  const node = new KnownNode({ kernel, live, families, apiServers: () => [], otherNodes });
  const refreshed = node.refresh();
  otherNodes.reserved = new Set([...otherNodes.reserved, ip("192.168.10.13")]);
  const reserved = (await refreshed).families.get("IPv4")?.reserved;
  assert.equal(reserved?.get(ip("192.168.10.12")), "other-node-address");
  assert.equal(reserved?.get(ip("192.168.10.13")), "other-node-address");
});
