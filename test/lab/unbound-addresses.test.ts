/**
 * Tests `kubeIpvs.unboundAddresses` with real packets: node-local DNS, which has the cluster DNS address on its own
 * link, and an announcer, which has a load-balancer IP. Each test covers both IP families.
 *
 * Node-local DNS has the link, addresses, rules and upstream Service that its manifest for iptables mode requests:
 * `cluster/addons/dns/nodelocaldns` in kubernetes/kubernetes, and `cmd/node-cache` in kubernetes/dns.
 */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type IpFamily, ipFamilies } from "../../src/base/ip.ts";
import { openIn } from "../support/client-traffic.ts";
import { LabNode, until } from "../support/lab-node.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { addIpv6, ipv6Of } from "../support/node-network.ts";
import { assertNotLogged } from "../support/not-logged.ts";
import { endpointSlice, service } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";
import { labRules } from "../support/rules-writer.ts";
import { explained, kubeIpvs } from "../support/run-kube-ipvs.ts";

const [coreDns, pod] = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.20" },
];
const places = {
  IPv4: {
    dns: "10.96.0.10",
    upstream: "10.96.0.11",
    local: "169.254.20.10",
    balancer: "203.0.113.7",
    ...{ pod: coreDns.address, prefix: 32, tool: "iptables-restore" },
  },
  IPv6: {
    dns: "fd00:96::a",
    upstream: "fd00:96::b",
    local: "fd00:53::a",
    balancer: "2001:db8:203::7",
    ...{ pod: ipv6Of(coreDns), prefix: 128, tool: "ip6tables-restore" },
  },
};
const agentLink = "nodelocaldns";
const announcerLink = "announcer0";
const port = 53;
/** Ports that pod-traffic.ts does not use. */
const podPort = 5300;

const slicePorts = [
  { name: "dns", protocol: "UDP", port: podPort },
  { name: "dns-tcp", protocol: "TCP", port: podPort },
];
const ports = [
  { name: "dns", protocol: "UDP", port, targetPort: podPort },
  { name: "dns-tcp", protocol: "TCP", port, targetPort: podPort },
];
const upstreamName = "kube-dns-upstream";
const objects = [
  service({
    name: upstreamName,
    clusterIps: [places.IPv4.upstream, places.IPv6.upstream],
    ports,
  }),
  service({
    name: "kube-dns",
    type: "LoadBalancer",
    clusterIps: [places.IPv4.dns, places.IPv6.dns],
    ports,
    spec: { allocateLoadBalancerNodePorts: false },
    status: {
      loadBalancer: { ingress: ipFamilies.map((family) => ({ ip: places[family].balancer })) },
    },
  }),
  ...ipFamilies.flatMap((family) =>
    ["kube-dns", upstreamName].map((name) =>
      endpointSlice({
        name: `${name}-${family.toLowerCase()}`,
        service: name,
        endpoints: [places[family].pod],
        ports: slicePorts,
      }),
    ),
  ),
];
const unbound = ipFamilies.flatMap((family) => {
  const { dns, balancer, prefix } = places[family];
  return [`${dns}/${prefix}`, `${balancer}/${prefix}`];
});

/** The input of iptables-restore that adds or deletes node-local DNS's rules for an address. */
function agentRules(verb: "I" | "D", address: string): string {
  const [to, from] = [`-d ${address} --dport`, `-s ${address} --sport`];
  const rule = (chain: string, protocol: string, match: string, target: string): string =>
    `-${verb} ${chain} -p ${protocol} ${match} -j ${target}`;
  const perProtocol = ["tcp", "udp"].map((protocol) => ({
    raw: [
      rule("PREROUTING", protocol, `${to} ${port}`, "NOTRACK"),
      rule("OUTPUT", protocol, `${from} ${port}`, "NOTRACK"),
      rule("OUTPUT", protocol, `${to} ${port}`, "NOTRACK"),
    ],
    filter: [
      rule("INPUT", protocol, `${to} ${port}`, "ACCEPT"),
      rule("OUTPUT", protocol, `${from} ${port}`, "ACCEPT"),
    ],
  }));
  const health = [to, from].map((match) => rule("OUTPUT", "tcp", `${match} 8080`, "NOTRACK"));
  return [
    ...["*raw", ...perProtocol.flatMap(({ raw }) => raw), ...health, "COMMIT"],
    ...["*filter", ...perProtocol.flatMap(({ filter }) => filter), "COMMIT", ""],
  ].join("\n");
}

/** Answers over UDP and TCP. Returns a function that stops this. */
async function answer(
  namespace: string,
  reply: () => Promise<string>,
  at: string,
  on: number,
): Promise<() => void> {
  const datagrams = createSocket(at.includes(":") ? "udp6" : "udp4");
  // The sockets may be closed before the reply is known.
  datagrams.on("message", (_, { address, port: from }) => {
    reply()
      .then((name) => datagrams.send(name, from, address))
      .catch(() => {});
  });
  // A client resets its connection when it stops waiting.
  const server = createServer((socket) => {
    socket.on("error", () => {});
    reply()
      .then((name) => socket.end(name))
      .catch(() => {});
  });
  await openIn(namespace, async () => {
    datagrams.bind(on, at);
    await once(datagrams, "listening");
    server.listen(on, at);
    await once(server, "listening");
  });
  datagrams.unref();
  server.unref();
  return () => {
    datagrams.close();
    server.close();
  };
}

function askedOverTcp(address: string): Promise<string> {
  const stream = connect({ host: address, port });
  stream.setTimeout(2_000, () => stream.destroy(new Error("nobody")));
  return text(stream).catch(() => "nobody");
}

/** The names that answer over UDP and TCP, for example `coredns coredns`. */
async function asked(namespace: string, address: string): Promise<string> {
  const socket = createSocket(address.includes(":") ? "udp6" : "udp4");
  const answers = await openIn(namespace, async () => {
    // ICMP "port unreachable" arrives as an error.
    socket.on("error", () => {});
    socket.bind(0);
    await once(socket, "listening");
    socket.send("?", port, address);
    const overTcp = askedOverTcp(address);
    const overUdp = once(socket, "message", { signal: AbortSignal.timeout(2_000) }).then(
      ([message]) => String(message),
      () => "nobody",
    );
    // The connection's socket is created in the next turn.
    await nextTurn();
    return [overUdp, overTcp];
  });
  return (await Promise.all(answers).finally(() => socket.close())).join(" ");
}

/** Whether kube-ipvs makes the address local, by an address or a route. */
function isBound(address: string): boolean {
  const lines = shell("ip -o address show kube-ipvs0; ip route show table local proto 75");
  return lines.includes(` ${address}/`) || lines.includes(`local ${address} `);
}

function hasServer(address: string): boolean {
  return shell("ipvsadm -Sn").includes(address);
}

function readSets(): string {
  return shell(
    labRules === undefined
      ? "ipset save"
      : "nft -s list table ip kube-ipvs; nft -s list table ip6 kube-ipvs",
  );
}

/** The set of virtual IPs that are bound to kube-ipvs0. */
function readBoundSet(family: IpFamily): string {
  const [name, table] = family === "IPv4" ? ["KUBE-IPVS-IPS", "ip"] : ["KUBE-6-IPVS-IPS", "ip6"];
  if (labRules === undefined) return shell(`ipset save ${name}`);
  return shell(`nft list set ${table} kube-ipvs ${name}`);
}

describe("kubeIpvs.unboundAddresses", () => {
  let node: LabNode;
  const ends: (() => void)[] = [];

  async function answers(namespace: string, address: string, wanted: string): Promise<void> {
    const isAnswered = async (): Promise<boolean> => (await asked(namespace, address)) === wanted;
    await until(isAnswered, patienceMs, async () => {
      return `${await asked(namespace, address)} from ${namespace}\n${node.program.output}`;
    });
  }

  function addLink(name: string, addresses: readonly string[]): void {
    const lines = addresses.map((one) => `ip address add ${one} dev ${name} nodad`);
    shell(["set -e", `ip link add ${name} type dummy`, ...lines].join("\n"));
  }

  function changeAgentRules(verb: "I" | "D"): void {
    for (const family of ipFamilies) {
      const { local, dns, tool } = places[family];
      shell(`${tool} -w 5 --noflush << END\n${agentRules(verb, local)}${agentRules(verb, dns)}END`);
    }
  }

  /** Starts node-local DNS, which asks CoreDNS over TCP. */
  async function startAgent(): Promise<void> {
    addLink(
      agentLink,
      ipFamilies.flatMap((family) => [places[family].local, places[family].dns]),
    );
    for (const family of ipFamilies) {
      const { local, dns, upstream } = places[family];
      const reply = async (): Promise<string> => `agent(${await askedOverTcp(upstream)})`;
      for (const address of [local, dns]) ends.push(await answer("node", reply, address, port));
    }
    changeAgentRules("I");
  }

  function stopAgent(): void {
    for (const end of ends.splice(0)) end();
    shell(`ip link del ${agentLink}`);
    changeAgentRules("D");
  }

  const start = (...flags: readonly string[]) =>
    node.start([
      "--cluster-cidr=10.244.0.0/16,fd00:244::/32",
      ...(labRules === undefined ? [] : [`--kube-ipvs-rules=${labRules}`]),
      ...flags,
    ]);

  before(async () => {
    node = await LabNode.build([coreDns, pod]);
    addIpv6([coreDns, pod]);
    for (const family of ipFamilies)
      await answer(coreDns.name, async () => "coredns", places[family].pod, podPort);
    node.apply(...objects);
  });

  after(() => node.destroy());

  it("is not set: IPVS handles packets to the cluster IP before node-local DNS does, and rules drop those of the node", async () => {
    await startAgent();
    await start();
    for (const family of ipFamilies) {
      const { dns } = places[family];
      await answers(pod.name, dns, "coredns coredns");
      // Packets without connection tracking are not masqueraded.
      await answers("node", dns, "nobody nobody");
      assert.ok(isBound(dns));
    }
    stopAgent();
    await node.stop();
  });

  for (const form of ["addresses", "routes"] as const)
    describe(`has the cluster IP and the load-balancer IP, with virtual IPs as ${form}`, () => {
      before(() =>
        start(
          `--kube-ipvs-unbound-addresses=${unbound.join(",")}`,
          `--kube-ipvs-virtual-addresses=${form}`,
        ),
      );

      after(async () => {
        await node.stop();
        shell(`ip link del ${announcerLink}`);
      });

      it("binds and serves the cluster IP while no other link has it", async () => {
        for (const family of ipFamilies) {
          const { dns } = places[family];
          for (const from of [pod.name, "node"]) await answers(from, dns, "coredns coredns");
          assert.ok(isBound(dns));
          assert.ok(readBoundSet(family).includes(dns));
        }
      });

      it("leaves the cluster IP to node-local DNS while its link has it, and serves its upstream Service", async () => {
        await startAgent();
        const agent = "agent(coredns)";
        for (const family of ipFamilies) {
          const { dns, local } = places[family];
          for (const from of [pod.name, "node"])
            for (const address of [dns, local]) await answers(from, address, `${agent} ${agent}`);
          await until(
            async () => !isBound(dns) && !hasServer(dns),
            patienceMs,
            async () => shell("ip address show kube-ipvs0; ipvsadm -Sn"),
          );
          assert.equal(readSets().includes(dns), false);
        }
        assert.equal(kubeIpvs("plan").code, 0);
      });

      it("is shown by `services` and `explain` as an address of the node", () => {
        const { out } = kubeIpvs("services");
        for (const family of ipFamilies) {
          const { dns } = places[family];
          const rows = out.split("\n").filter((line) => line.includes(dns));
          assert.equal(rows.length, 2, out);
          for (const row of rows) assert.match(row, /held-by-node$/);
          for (const { verdict, differences } of explained(
            dns.includes(":") ? `[${dns}]:53` : `${dns}:53`,
          )) {
            assert.deepEqual([verdict, differences], ["node", []]);
          }
        }
      });

      it("serves the cluster IP again when the agent's link no longer exists", async () => {
        stopAgent();
        for (const family of ipFamilies) {
          const { dns } = places[family];
          for (const from of [pod.name, "node"]) await answers(from, dns, "coredns coredns");
          assert.ok(isBound(dns));
        }
      });

      it("serves the load-balancer IP without binding it, on an announcer's link or none", async () => {
        for (const family of ipFamilies) {
          const { balancer } = places[family];
          assert.ok(hasServer(balancer));
          assert.equal(isBound(balancer), false);
          assert.equal(readBoundSet(family).includes(balancer), false);
          // No host has this address, so the packet leaves the node.
          assert.equal(await asked(pod.name, balancer), "nobody nobody");
        }
        addLink(
          announcerLink,
          ipFamilies.map((family) => places[family].balancer),
        );
        for (const family of ipFamilies) {
          const { balancer } = places[family];
          await answers(pod.name, balancer, "coredns coredns");
          assert.equal(isBound(balancer), false);
        }
        assertNotLogged(
          node.program.output,
          "Address is never bound to kube-ipvs0 because the node needs it",
        );
      });
    });
});
