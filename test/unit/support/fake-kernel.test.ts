/** Tests the fake kernel's features beyond the contract: the log, failures, lost replies and crashes. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { IpvsChange } from "../../../src/kernel/kernel.ts";
import type { VirtualServer } from "../../../src/state/virtual-server.ts";
import { ip } from "../../contract/contract-kernel.ts";
import { FakeKernel } from "../../support/fake-kernel/fake-kernel.ts";
import { FakeCrash } from "../../support/fake-kernel/operations.ts";
import { addressesText, ipSetText, ipvsText } from "../../support/fake-kernel/state-text.ts";
import { observeIpvs } from "../../support/observe-ipvs.ts";

function server(port: number, overrides: Partial<VirtualServer> = {}): VirtualServer {
  return {
    protocol: "TCP",
    address: ip("10.96.0.1"),
    port,
    scheduler: "rr",
    persistenceTimeoutSeconds: 0,
    persistencePrefixLength: 32,
    flags: 0,
    ...overrides,
  };
}

function create(...ports: readonly number[]): IpvsChange[] {
  return ports.map((port) => ({ kind: "virtual-server-create", after: server(port) }));
}

const target = { address: ip("10.244.1.5"), port: 8080, weight: 1, forwardingMethod: 0 };

describe("the fake kernel", () => {
  it("logs every change in order, but no reads", async () => {
    const kernel = new FakeKernel();
    await kernel.link.ensure();
    await kernel.ipvs.apply(create(80));
    await kernel.ipvs.apply([
      { kind: "real-server-create", virtualServer: server(80), after: target },
    ]);
    await observeIpvs(kernel.ipvs);
    kernel.sysctl.ensure("net/ipv4/ip_forward", "1");
    kernel.sysctl.ensure("net/ipv4/ip_forward", "1");
    assert.deepEqual(kernel.operations.texts(), [
      "link create-link kube-ipvs0",
      "ipvs virtual-server-create TCP 10.96.0.1:80",
      "ipvs real-server-create TCP 10.96.0.1:80 -> 10.244.1.5:8080",
      "sysctl write net/ipv4/ip_forward=1",
    ]);
    kernel.operations.clear();
    assert.deepEqual(kernel.operations.texts(), []);
  });

  it("fails the n-th change and executes the others", async () => {
    const { ipvs, operations } = new FakeKernel();
    operations.failNth(2, 1);
    const failed = await ipvs.apply(create(80, 81, 82));
    assert.deepEqual(
      failed.map(({ index, error }) => [index, error.message]),
      [[1, "Cannot create virtual server TCP 10.96.0.1:81: EPERM"]],
    );
    assert.equal(ipvs.peek().length, 2);
  });

  it("fails requests that a test selects, including reads, until the test stops this", async () => {
    const { ipvs, ipSets, operations } = new FakeKernel();
    const end = operations.failWhere(({ facility }) => facility === "ipvs", 12);
    await assert.rejects(observeIpvs(ipvs), /ENOMEM/);
    await ipSets.listSets();
    end();
    await observeIpvs(ipvs);
  });

  it("executes a request whose reply is lost", async () => {
    const { ipvs, operations } = new FakeKernel();
    operations.loseReplyWhere(({ facility }) => facility === "ipvs");
    await assert.rejects(ipvs.apply(create(80, 81)), { code: "ENOBUFS" });
    assert.equal(ipvs.peek().length, 2);
    await ipvs.apply(create(82));
  });

  it("stops in the middle of a request as if the process had been killed", async () => {
    const { ipvs, link, operations } = new FakeKernel();
    operations.crashAt(2);
    await assert.rejects(ipvs.apply(create(80, 81, 82)), FakeCrash);
    await assert.rejects(link.find(), FakeCrash);
    assert.equal(ipvs.peek().length, 1);
    operations.revive();
    assert.equal((await observeIpvs(ipvs)).length, 1);
  });

  it("returns the given connection counts, and keeps them after an update", async () => {
    const { ipvs } = new FakeKernel();
    const real = { virtualServer: server(80), after: target };
    await ipvs.apply([...create(80), { kind: "real-server-create", ...real }]);
    ipvs.setConnections(server(80), target, { active: 3, inactive: 1 });
    const drained = { ...real, after: { ...target, weight: 0 } };
    await ipvs.apply([{ kind: "real-server-update", ...drained }]);
    const [[observed] = []] = await ipvs.listRealServers([server(80)]);
    assert.equal(observed?.activeConnections, 3);
    assert.equal(observed.weight, 0);
  });

  it("prints its state like the tools", async () => {
    const { ipvs, ipSets, link } = new FakeKernel();
    const kernel = { ipvs, ipSets, link } as FakeKernel;
    const flags = { scheduler: "mh", flags: 0x10, persistenceTimeoutSeconds: 300 };
    await ipvs.apply([
      { kind: "virtual-server-create", after: server(80, flags) },
      { kind: "real-server-create", virtualServer: server(80), after: target },
    ]);
    assert.equal(
      ipvsText(kernel),
      "-A -t 10.96.0.1:80 -s mh -p 300 -b mh-port\n" +
        "-a -t 10.96.0.1:80 -r 10.244.1.5:8080 -m -w 1\n",
    );
    await ipSets.create({ name: "A", type: "hash:ip", family: "IPv6", maxElements: 64 });
    assert.equal(ipSetText(kernel), "create A hash:ip family inet6\n");
    await link.ensure();
    await link.apply([
      { kind: "address-add", address: ip("10.96.0.1") },
      { kind: "address-add", address: ip("fd00:96::1") },
    ]);
    assert.equal(
      addressesText(kernel),
      "kube-ipvs0    inet 10.96.0.1/32 scope global kube-ipvs0\n" +
        "kube-ipvs0    inet6 fd00:96::1/128 scope global\n",
    );
  });
});
