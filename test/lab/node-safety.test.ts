/**
 * Uses real packets to test that the node stays connected when Services have addresses that it needs. In a control
 * test, such an address is bound to kube-ipvs0, which disconnects the node.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ClusterNode } from "../support/cluster-node.ts";
import { eventually, type Flags, type LabDaemon, startLabDaemon } from "../support/lab-daemon.ts";
import {
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";
import { buildNodeNetwork, clientAddress, nodeAddress } from "../support/node-network.ts";
import { type ApiObject, endpoint, endpointSlice, node, service } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { Program } from "../support/program.ts";
import { listRules } from "../support/rules-writer.ts";

const broadcast = "192.168.10.255";
const apiServer = "192.168.10.200";
const harmless = "203.0.113.5";
const flags: Flags = { "ipvs-sync-period": "1s" };

function claiming(addresses: readonly string[], name = "web", clusterIp = "10.96.0.10"): ApiObject {
  return service({ name, clusterIps: [clusterIp], spec: { externalIPs: addresses } });
}

const slice = endpointSlice({ endpoints: ["10.244.2.11"] });
const all = [clientAddress, broadcast, apiServer, nodeAddress, harmless];
/** Services through which pods reach the API server. The endpoint is the control plane's real address. */
const apiServerObjects = [
  service({ name: "kubernetes", clusterIps: ["10.96.0.1"] }),
  endpointSlice({
    service: "kubernetes",
    endpoints: [endpoint(apiServer)],
  }),
];

function bound(): readonly string[] {
  const found = shell("ip -o -4 address show kube-ipvs0").matchAll(/inet (\S+)\//g);
  return [...found].map(([, address]) => address ?? "").sort();
}

function servers(): readonly string[] {
  const found = shell("ipvsadm -Sn").matchAll(/^-A -t (\S+):80 /gm);
  return [...found].map(([, address]) => address ?? "").sort();
}

function canPing(address: string): boolean {
  return shell(`ping -c 1 -W 1 ${address} > /dev/null 2>&1 && echo yes || echo no`) === "yes\n";
}

before(() => {
  buildNodeNetwork([]);
  // The gateway is also the API server's host.
  shell(`ip -n client addr add ${apiServer}/24 dev eth0`);
  enterNetworkNamespace("node");
});

after(() => {
  leaveNetworkNamespace();
  for (const name of ["client", "node"]) removeNetworkNamespace(name);
});

it("control: binding the gateway's address to kube-ipvs0 disconnects the node", () => {
  assert.equal(canPing("192.168.10.1"), true);
  shell(`ip link add probe0 type dummy; ip address add ${clientAddress}/32 dev probe0`);
  const answers = shell(`ping -c 1 -W 1 ${clientAddress}; ip route get ${clientAddress}`);
  assert.match(answers, /^local 192\.168\.10\.1 dev lo/m);
  shell("ip link del probe0");
});

describe("external IPs that the node itself needs", () => {
  let daemon: LabDaemon;

  before(async () => {
    daemon = await startLabDaemon([claiming(all), slice, ...apiServerObjects], flags);
  });

  after(() => daemon.stop());

  it("are never bound to kube-ipvs0, unlike other external IPs", () => {
    assert.deepEqual(bound(), ["10.96.0.1", "10.96.0.10", harmless]);
  });

  it("have the virtual servers that kube-proxy creates for them", () => {
    assert.deepEqual(servers(), [...all, "10.96.0.1", "10.96.0.10"].sort());
  });

  it("do not disconnect the node from its gateway and API server", () => {
    for (const address of [clientAddress, apiServer]) {
      assert.equal(canPing(address), true, address);
      assert.match(shell(`ip route get ${address}`), new RegExp(`^${address} dev eth0`));
    }
  });

  it("are reported once per address, and counted", async () => {
    const told = daemon.lines
      .filter(({ event }) => event.startsWith("Address is never bound"))
      .map(({ keys }) => `${keys["address"]} ${keys["reason"]} ${keys["servicePortName"]}`);
    assert.deepEqual(told.toSorted(), [
      `${clientAddress} gateway-address default/web:http`,
      `${nodeAddress} node-address default/web:http`,
      `${apiServer} api-server-address default/web:http`,
      `${broadcast} broadcast-address default/web:http`,
    ]);
    const counted = await daemon.metrics("kube_ipvs_frontend_conflicts");
    assert.ok(counted.includes('kube_ipvs_frontend_conflicts{reason="gateway-address"} 1'));
  });

  it("follow the current gateway: the next full check binds the address of a former one", async () => {
    daemon.apply(claiming(["192.168.10.7"], "later", "10.96.0.12"));
    await daemon.settled();
    assert.ok(bound().includes("192.168.10.7"));
    shell(`
      ip address del 192.168.10.7/32 dev kube-ipvs0
      ip route replace default via 192.168.10.7
    `);
    await eventually(() => bound().includes("192.168.10.7"), false, patienceMs);
    shell(`ip route replace default via ${clientAddress}`);
    await eventually(() => bound().includes("192.168.10.7"), true, patienceMs);
    assert.deepEqual(daemon.errors, []);
  });

  it("include the gateway while its link is down, and the node is connected again when the link is up", async () => {
    shell("ip link set eth0 down");
    daemon.apply(claiming(["203.0.113.6"], "meanwhile", "10.96.0.13"));
    await eventually(() => bound().includes("203.0.113.6"), true, patienceMs);
    assert.equal(bound().includes(clientAddress), false);
    shell(`ip link set eth0 up; ip route replace default via ${clientAddress}`);
    await eventually(() => canPing(clientAddress), true, patienceMs);
    assert.deepEqual(daemon.errors, []);
  });

  it("do not affect IPv4 if IPv6 is disabled at run time", async () => {
    const six = service({ name: "six", clusterIps: ["fd00:96::6"] });
    daemon.apply(six, endpointSlice({ service: "six", endpoints: ["fd00:244::6"] }));
    const hasSix = () => shell("ip -6 -o address show kube-ipvs0").includes("fd00:96::6/");
    await eventually(hasSix, true, patienceMs);
    shell("sysctl -qw net.ipv6.conf.all.disable_ipv6=1");
    daemon.apply(claiming(["203.0.113.8"], "later-four", "10.96.0.14"));
    await eventually(() => bound().includes("203.0.113.8"), true, patienceMs);
    await daemon.settled();
    assert.equal(hasSix(), false);
    assert.deepEqual(daemon.errors, []);
    shell("sysctl -qw net.ipv6.conf.all.disable_ipv6=0");
    await eventually(hasSix, true, patienceMs);
  });
});

it("with `refuse` are not served at all until the node no longer needs them", async () => {
  const refusing = { ...flags, "kube-ipvs-reserved-addresses": "refuse" };
  const daemon = await startLabDaemon([claiming(all), slice, ...apiServerObjects], refusing);
  try {
    assert.deepEqual(servers(), ["10.96.0.1", "10.96.0.10", harmless].sort());
    assert.deepEqual(bound(), ["10.96.0.1", "10.96.0.10", harmless]);
    assert.doesNotMatch(shell(listRules), /(?:add KUBE-EXTERNAL-IP |elements = .*)192\.168\.10\./);
    daemon.delete(...apiServerObjects);
    await eventually(() => bound().includes(apiServer), true, patienceMs);
  } finally {
    await daemon.stop();
  }
});

describe("another Node's address as an external IP", () => {
  const [other, joining] = ["192.168.10.12", "192.168.10.13"] as const;
  const allNodes = [node({ name: "node-2", addresses: [other], podCidrs: ["10.244.2.0/24"] })];
  let proxy: ClusterNode;
  let monitor: Program;

  /** The addresses in the log lines about these findings, from all programs so far. */
  function named(): readonly unknown[] {
    return proxy
      .lines()
      .filter(({ msg }) => /^(?:Address is never bound|Service address is not served)/.test(msg))
      .map(({ address, reason }) => `${address} ${reason}`);
  }

  function counted(reason = "other-node-address"): Promise<number> {
    return proxy.metric("kube_ipvs_frontend_conflicts", { reason });
  }

  /** Every address that has been bound since the monitor started, even for a moment. */
  function everBound(): string {
    return monitor.output;
  }

  function isServed(address: string): boolean {
    return bound().includes(address) || servers().includes(address);
  }

  before(async () => {
    // The monitor does not report addresses that are already bound.
    shell("ipvsadm -C; ip link del kube-ipvs0");
    monitor = new Program(["-4", "monitor", "address"], [], { program: "ip" });
    proxy = await ClusterNode.build(
      [claiming([other, harmless]), slice, ...allNodes, ...apiServerObjects],
      { kubeIpvs: { nodeAddressPeriod: "1s" } },
    );
    await proxy.start();
  });

  after(async () => {
    await proxy.close();
    monitor.kill("SIGKILL");
    await monitor.ends();
  });

  it("is neither bound nor served, unlike the Service's other addresses", async () => {
    await monitor.prints(new RegExp(`inet ${harmless}/32`));
    assert.deepEqual(bound(), ["10.96.0.1", "10.96.0.10", harmless]);
    assert.deepEqual(servers(), ["10.96.0.1", "10.96.0.10", harmless].sort());
    assert.doesNotMatch(shell(listRules), new RegExp(other));
  });

  it("is reported once, by a log line, a metric and an Event", async () => {
    const eventsOf = (): readonly string[] =>
      proxy.events().filter((event) => event.startsWith("ReservedAddress Service web"));
    await proxy.until("the Event is written", () => eventsOf().length > 0);
    proxy.api.apply(claiming(["203.0.113.9"], "unrelated", "10.96.0.15"));
    await proxy.until("another sync has finished", () => isServed("203.0.113.9"));
    assert.deepEqual(named(), [`${other} other-node-address`]);
    assert.equal(await counted(), 1);
    assert.equal(eventsOf().length, 1);
    assert.match(
      eventsOf()[0] ?? "",
      /192\.168\.10\.12 is not served .* an address of another Node;/,
    );
  });

  it("is withdrawn and reported if its Node appears later", async () => {
    proxy.api.apply(claiming([joining], "later", "10.96.0.14"));
    await proxy.until("it is served while no Node has it", () => isServed(joining));
    proxy.api.apply(node({ name: "node-3", addresses: [joining] }));
    await proxy.until("it is neither bound nor served", () => !isServed(joining));
    await proxy.until("both are counted", async () => (await counted()) === 2);
    assert.deepEqual(
      named(),
      [other, joining].map((address) => `${address} other-node-address`),
    );
  });

  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    it(`is never bound during a restart after ${signal}`, async () => {
      const before = everBound();
      const printed = named().length;
      await proxy.stop(signal);
      await proxy.start();
      await proxy.until("both are counted", async () => (await counted()) === 2);
      assert.equal(isServed(other) || isServed(joining), false);
      assert.doesNotMatch(everBound().slice(before.length), /192\.168\.10\.1[23]/);
      assert.equal(named().length, printed + 2);
    });
  }

  it("was never bound since the first start", () => {
    assert.doesNotMatch(everBound(), new RegExp(other));
  });

  it("is treated like an address in a Node's pod CIDR: neither is ever bound or served, and both are reported", async () => {
    const pod = "10.244.2.7";
    proxy.api.apply(claiming([pod, "203.0.113.10"], "pod", "10.96.0.16"));
    await proxy.until("the other one is served", () => isServed("203.0.113.10"));
    await proxy.until("it is counted", async () => (await counted("pod-address")) === 1);
    assert.equal(isServed(pod), false);
    assert.doesNotMatch(everBound(), new RegExp(pod));
    assert.equal(named().at(-1), `${pod} pod-address`);
    const hasEvent = (): boolean =>
      proxy.events().some((event) => event.includes(`${pod} is not served on this node`));
    await proxy.until("the Event is written", hasEvent);
  });
});
