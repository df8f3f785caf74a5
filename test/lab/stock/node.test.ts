/**
 * Tests a node on a kernel as a distribution ships it. The node is the kernel's first network namespace, so modules are
 * loaded as on a real node. With TEST_RULES=nftables, the node has neither iptables nor ipset, as in Enterprise Linux 10.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { askName, Connection, Datagrams } from "../../support/client-traffic.ts";
import { LabNode, until } from "../../support/lab-node.ts";
import { shell } from "../../support/netns/network-namespace.ts";
import { networkAroundNode } from "../../support/node-network.ts";
import { endpointSlice, service, servicePort, slicePort } from "../../support/objects.ts";
import { Program } from "../../support/program.ts";
import { ip } from "../../support/records.ts";
import { labRules } from "../../support/rules-writer.ts";
import { kubeIpvs } from "../../support/run-kube-ipvs.ts";

/** Emulation is slow. */
const limitMs = 600_000;
const pods = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.11" },
];
const names = pods.map(({ name }) => name);
const ipv4 = pods.map(({ address }) => address);
const ipv6 = ["fd00:244:1::10", "fd00:244:1::11"];
const udp = { name: "dns", protocol: "UDP" };
const tcpPorts = (nodePort?: number) => [servicePort(nodePort === undefined ? {} : { nodePort })];

/** All Services; `endpoints` are those of the Service `web`. */
function objects(endpoints: readonly string[] = ipv4) {
  const others = ["ports", "balanced", "restricted", "external", "headless"];
  return [
    service({
      clusterIps: ["10.96.0.10", "fd00:96::10"],
      ports: [servicePort(), servicePort({ ...udp, port: 53, targetPort: 5353 })],
    }),
    service({
      name: "ports",
      type: "NodePort",
      clusterIps: ["10.96.0.11"],
      ports: tcpPorts(30_080),
    }),
    service({
      name: "balanced",
      type: "LoadBalancer",
      clusterIps: ["10.96.0.12"],
      ports: tcpPorts(30_081),
      spec: { loadBalancerSourceRanges: ["192.168.10.0/24"] },
      status: { loadBalancer: { ingress: [{ ip: "203.0.113.12" }] } },
    }),
    service({
      name: "restricted",
      type: "LoadBalancer",
      clusterIps: ["10.96.0.13"],
      ports: tcpPorts(30_082),
      spec: { loadBalancerSourceRanges: ["198.51.100.0/24"] },
      status: { loadBalancer: { ingress: [{ ip: "203.0.113.13" }] } },
    }),
    service({
      name: "external",
      clusterIps: ["10.96.0.14"],
      spec: { externalIPs: ["203.0.113.14"] },
    }),
    service({ name: "headless", clusterIps: ["None"], spec: { ipFamilies: ["IPv4"] } }),
    service({ name: "empty", clusterIps: ["10.96.0.15"] }),
    endpointSlice({ endpoints, ports: [slicePort(), slicePort({ ...udp, port: 5353 })] }),
    endpointSlice({ name: "web-6", endpoints: ipv6 }),
    ...others.map((name) => endpointSlice({ service: name, endpoints: ipv4 })),
  ];
}

const ipv6Lines: string = [
  "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
  "ip -n client addr add fd00:10::1/64 dev eth0 nodad",
  "ip addr add fd00:10::11/64 dev eth0 nodad",
  "ip -n client route add fd00:96::/64 via fd00:10::11",
  "ip -n client route add 203.0.113.0/24 via 192.168.10.11",
  ...names.flatMap((name, index) => [
    `ip -n ${name} addr add ${ipv6[index]}/128 dev eth0 nodad`,
    `ip addr add fd00:244:1::1/128 dev veth${index + 1} nodad`,
    `ip -n ${name} route add fd00:244:1::1 dev eth0`,
    `ip -n ${name} route add default via fd00:244:1::1`,
    `ip route add ${ipv6[index]}/128 dev veth${index + 1}`,
  ]),
].join("\n");

function loadedModules(): ReadonlySet<string> {
  const lines = readFileSync("/proc/modules", "utf8").trim().split("\n");
  return new Set(lines.map((line) => line.split(" ")[0] ?? ""));
}

function assertLoaded(modules: readonly string[]): void {
  const loaded = loadedModules();
  assert.deepEqual(
    modules.filter((name) => !loaded.has(name)),
    [],
  );
}

/** The names of the pods that answer four requests. */
async function askFour(address: string, port = 80): Promise<readonly string[]> {
  const answers: string[] = [];
  for (let count = 0; count < 4; count += 1) answers.push(await askName(address, port));
  return [...new Set(answers)].toSorted();
}

/** Lists kube-ipvs' virtual servers, link, sets and rules in the kernel. */
function traces(): string {
  return shell(`
    ipvsadm -Sn
    ip link show kube-ipvs0 2> /dev/null || true
    nft list ruleset | grep -iE 'kube' || true
    ${labRules === undefined ? "ipset save; iptables-save | grep KUBE || true; ip6tables-save | grep KUBE || true" : ""}
  `);
}

describe("a node with a distribution's kernel", { timeout: 3_000_000 }, () => {
  const web = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
  let node: LabNode;

  before(async () => {
    assert.ok(!loadedModules().has("ip_vs"));
    node = await LabNode.build(pods, () => {
      shell(`ip netns attach node $PPID\n${networkAroundNode(pods)}\n${ipv6Lines}`);
    });
    node.apply(...objects());
  });
  after(() => node.destroy());

  it("is prepared by the init container's command", async () => {
    const program = new Program(["--init-only", ...node.flags]);
    assert.deepEqual(await program.ends(limitMs), { code: 0, signal: null }, program.output);
    assertLoaded(["ip_vs", "ip_vs_rr", "nf_conntrack"]);
    assert.equal(readFileSync("/proc/sys/net/ipv4/ip_forward", "utf8"), "1\n");
  });

  it("is not served with `rules: iptables`, and the error names the remedy", {
    skip: labRules === undefined && "this node has iptables",
  }, async () => {
    const program = new Program([...node.flags, "--kube-ipvs-rules=iptables"]);
    assert.deepEqual(await program.ends(limitMs), { code: 1, signal: null }, program.output);
    assert.equal(program.failures.length, 1, program.output);
    assert.match(
      program.failures[0] ?? "",
      /^Cannot write rules with iptables and ipset: .+; set kubeIpvs\.rules: nftables$/,
    );
  });

  it("gets its first sync from a folder, and modules on demand", async () => {
    await node.start([], [], limitMs);
    assert.doesNotMatch(node.program.output, /^[EF]/m);
    const isWithNftables = node.program.output.includes(
      "Writing rules with nf_tables, without iptables and ipset",
    );
    assert.equal(isWithNftables, labRules !== undefined, node.program.output);
    assertLoaded(labRules === undefined ? ["ip_set_hash_ipport", "xt_set"] : ["nf_tables"]);
  });

  it("serves cluster IPs over TCP and UDP, IPv4 and IPv6", async () => {
    assert.deepEqual(await askFour("10.96.0.10"), names);
    assert.deepEqual(await askFour("fd00:96::10"), names);
    const datagrams = await Datagrams.open(40_000);
    assert.match(await datagrams.ask("10.96.0.10", 53, 60_000), /^pod-/);
    datagrams.close();
  });

  it("serves node ports, external IPs and load balancers", async () => {
    assert.deepEqual(await askFour("192.168.10.11", 30_080), names);
    assert.deepEqual(await askFour("203.0.113.14"), names);
    assert.deepEqual(await askFour("203.0.113.12"), names);
  });

  it("drops clients outside of source ranges, and refuses a Service without endpoints", async () => {
    const opened = Connection.open("203.0.113.13", 80, "name").then(
      () => "opened",
      () => "failed",
    );
    const waited = new Promise((resolve) => setTimeout(resolve, 3_000, "no answer"));
    assert.equal(await Promise.race([opened, waited]), "no answer");
    await assert.rejects(askName("10.96.0.15", 80), /ECONNREFUSED/);
  });

  it("has no virtual server for a headless Service", () => {
    const lines = shell("ipvsadm -Sn").matchAll(/^-A -t (\S+):80 /gm);
    assert.deepEqual([...lines].map(([, address]) => address).toSorted(), [
      ...["10.96.0.10", "10.96.0.11", "10.96.0.12", "10.96.0.13", "10.96.0.14", "10.96.0.15"],
      ...["203.0.113.12", "203.0.113.13", "203.0.113.14", "[fd00:96::10]"],
    ]);
  });

  it("has working commands", () => {
    assert.match(kubeIpvs("status").out, /^OK, 6 Services, /);
    assert.equal(kubeIpvs("plan").out, "No changes.\n");
    assert.match(
      kubeIpvs("explain", "--from", "192.168.10.1", "--to", "10.96.0.10:80").out,
      /^Packets from 192\.168\.10\.1 to 10\.96\.0\.10:80 are balanced over 2 of 2 endpoints/,
    );
    assert.match(
      kubeIpvs("explain", "--from", "192.168.10.1", "--to", "203.0.113.13:80").out,
      /^Packets from 192\.168\.10\.1 to 203\.0\.113\.13:80 are dropped/,
    );
  });

  it("has no problem according to doctor", () => {
    const { out, err } = kubeIpvs("doctor", "-o", "json");
    assert.notEqual(out, "", err);
    const { checks } = JSON.parse(out) as {
      readonly checks: readonly Readonly<Record<"name" | "verdict" | "evidence", string>>[];
    };
    for (const { name, verdict, evidence } of checks) {
      console.log(`doctor: ${name}: ${verdict}: ${evidence}`);
    }
    const complaints = checks.filter(({ verdict }) => !["ok", "skipped"].includes(verdict));
    assert.deepEqual(complaints, []);
  });

  it("keeps a connection while its endpoint drains", async () => {
    const connections = [
      await Connection.open("10.96.0.10", 80, "echo"),
      await Connection.open("10.96.0.10", 80, "echo"),
    ];
    assert.deepEqual((await Promise.all(connections.map((one) => one.name()))).toSorted(), names);
    node.apply(...objects(ipv4.slice(0, 1)));
    await node.hasWeights(web, "pod-1 1, pod-2 0", limitMs);
    for (const connection of connections) await connection.ping("draining");
    assert.deepEqual(await askFour("10.96.0.10"), ["pod-1"]);
    // Other drains, such as that of UDP, would otherwise end during the restart, which would be a change.
    await until(
      async () => (await node.metric("kube_ipvs_draining_real_servers")) === 1,
      limitMs,
      async () => node.program.output,
    );

    // The restart after SIGKILL writes nothing, and breaks no connection.
    await node.stop("SIGKILL");
    for (const connection of connections) await connection.ping("killed");
    await node.start([], [], limitMs);
    const text = await (await fetch("http://127.0.0.1:10249/metrics")).text();
    assert.deepEqual(text.match(/^kube_ipvs_kernel_changes_total\{.*$/gm) ?? [], []);
    for (const connection of connections) {
      await connection.ping("restarted");
      connection.reset();
    }
    node.apply(...objects());
    await node.hasWeights(web, "pod-1 1, pod-2 1", limitMs);
    assert.deepEqual(await askFour("10.96.0.10"), names);
  });

  it("is empty after --cleanup", async () => {
    await node.stop("SIGTERM");
    assert.notEqual(traces(), "");
    const program = new Program(["--cleanup", ...node.flags]);
    assert.deepEqual(await program.ends(limitMs), { code: 0, signal: null }, program.output);
    assert.equal(traces(), "");
  });
});
