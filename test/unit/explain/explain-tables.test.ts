/** Tests `kube-ipvs explain` in iptables mode. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Destination } from "../../../src/answer/answers.ts";
import type { Explanation } from "../../../src/answer/explanation.ts";
import { planFacts } from "../../../src/daemon/operator/plan-facts.ts";
import type { From } from "../../../src/explain/origins.ts";
import type { Chain } from "../../../src/state/rule.ts";
import type { FakeNode } from "../../support/fake-node.ts";
import type { NamedObject } from "../../support/memory-source.ts";
import {
  type ApiObject,
  endpoint,
  endpointSlice,
  service,
  servicePort,
} from "../../support/objects.ts";
import { ip } from "../../support/records.ts";
import { explained, web, withNode } from "./on-fake-node.ts";

const here = endpoint("10.244.1.5", { nodeName: "node-1" });
const there = endpoint("10.244.2.5", { nodeName: "node-2" });
const notReady = endpoint("10.244.1.9", {
  nodeName: "node-1",
  conditions: { ready: false, serving: false, terminating: false },
});
const [pod, client] = [ip("10.244.1.7"), ip("192.168.10.1")];
const nodePort = 31_977;
const ports = [servicePort({ nodePort })];
const objects = [service(), endpointSlice({ endpoints: [here, there, notReady] })];

function inTables(
  given: readonly ApiObject[],
  body: (onNode: FakeNode) => Promise<void>,
  flags: Readonly<Record<string, string>> = {},
): Promise<void> {
  const forwarding = async (onNode: FakeNode): Promise<void> => {
    onNode.kernel.sysctl.values.set("net/ipv4/ip_forward", "1");
    await body(onNode);
  };
  return withNode(given, forwarding, { "proxy-mode": "iptables", ...flags });
}

async function summaryOf(
  onNode: FakeNode,
  from: From | undefined,
  destination: Destination = web,
): Promise<string> {
  return (await explained(onNode, from, destination)).summary;
}

/** Planned chains that packets to the cluster IP may traverse. */
async function tablesRules({ modeView }: FakeNode): Promise<{ readonly rules: readonly Chain[] }> {
  const { rules } = await planFacts(modeView, { kind: "destination", destination: web });
  return { rules: rules.IPv4?.chains ?? [] };
}

function differencesOf({ differences }: Explanation): readonly string[] {
  return differences.map(({ kind, subject }) => `${kind} ${subject}`);
}

describe("explain in iptables mode", () => {
  it("prints the verdict in one sentence", async () => {
    await inTables(objects, async (onNode) => {
      assert.equal(
        await summaryOf(onNode, pod),
        "Packets from 10.244.1.7 to 10.96.0.10:80 are balanced over 2 of 3 endpoints and not masqueraded",
      );
      assert.equal(
        await summaryOf(onNode, "node"),
        "Packets from this node to 10.96.0.10:80 are balanced over 2 of 3 endpoints and masqueraded",
      );
      assert.equal(
        await summaryOf(onNode, undefined),
        "Packets to 10.96.0.10:80 (default/web, cluster-ip) from this node and from elsewhere are balanced over 2 of 3 endpoints and masqueraded; from pods (10.244.0.0/16) they are balanced over 2 of 3 endpoints and not masqueraded",
      );
    });
  });

  it("shows chains in the packet's order, with those of the first endpoint as an example", async () => {
    await inTables(objects, async (onNode) => {
      const { mode, virtualServer, packets, endpoints, differences } = await explained(
        onNode,
        client,
      );
      assert.deepEqual([mode, virtualServer], ["iptables", undefined]);
      const places = (path: Explanation["packets"][number]["path"]): readonly string[] =>
        path.map(({ hook, table, chain, isPlanned }) => {
          const kind = chain.replace(/^(KUBE-(?:SVC|SEP)-).{16}$/, "$1");
          return `${hook} ${table} ${kind} ${isPlanned}`;
        });
      const [packet] = packets;
      assert.deepEqual(places(packet?.path ?? []), [
        "PREROUTING nat PREROUTING true",
        "PREROUTING nat KUBE-SERVICES true",
        "PREROUTING nat KUBE-SVC- true",
        "PREROUTING nat KUBE-MARK-MASQ true",
      ]);
      assert.deepEqual(
        packet?.deliveries.map(({ realServers, seenSource }) => [...realServers, seenSource]),
        [
          ["10.244.1.5:8080", "10.244.1.1"],
          ["10.244.2.5:8080", "192.168.10.11"],
        ],
      );
      assert.deepEqual(places(packet?.deliveries[0]?.path ?? []), [
        "PREROUTING nat KUBE-SVC- true",
        "PREROUTING nat KUBE-SEP- true",
        "FORWARD filter FORWARD true",
        "FORWARD filter FORWARD true",
        "FORWARD filter KUBE-FORWARD true",
        "POSTROUTING nat POSTROUTING true",
        "POSTROUTING nat KUBE-POSTROUTING true",
        "POSTROUTING nat KUBE-POSTROUTING true",
      ]);
      assert.match(packet?.masquerading ?? "", /^marked in nat KUBE-SVC-.* -j KUBE-MARK-MASQ$/);
      assert.deepEqual(
        endpoints.map(({ address, reason }) => [address, reason]),
        [
          ["10.244.1.5", undefined],
          ["10.244.1.9", "not-ready"],
          ["10.244.2.5", undefined],
        ],
      );
      assert.deepEqual(differences, []);
    });
  });

  it("shows the masquerading that a pod needs to reach itself", async () => {
    await inTables([service(), endpointSlice({ endpoints: [here] })], async (onNode) => {
      const { summary, packets } = await explained(onNode, ip("10.244.1.5"));
      assert.match(summary, /over 1 of 1 endpoint and masqueraded$/);
      assert.match(packets[0]?.masquerading ?? "", /^to itself: marked in nat KUBE-SEP-/);
    });
  });

  it("distinguishes Services without endpoints from those without local endpoints", async () => {
    const spec = { externalTrafficPolicy: "Local", internalTrafficPolicy: "Local" };
    const policies = service({ type: "NodePort", ports, spec });
    const onNodePort = { ...web, address: ip("192.168.10.11"), port: nodePort };
    await inTables([policies, endpointSlice({ endpoints: [there] })], async (onNode) => {
      assert.match(
        await summaryOf(onNode, pod),
        /are dropped by filter KUBE-SERVICES: .*no local endpoints/,
      );
      assert.match(
        await summaryOf(onNode, client, onNodePort),
        /are dropped by filter KUBE-EXTERNAL-SERVICES: .*no local endpoints/,
      );
      assert.match(await summaryOf(onNode, pod, onNodePort), /over 1 of 1 endpoint and not masq/);
      onNode.source.apply(endpointSlice({ endpoints: [] }) as unknown as NamedObject);
      await onNode.settle();
      assert.match(
        await summaryOf(onNode, pod),
        /are refused by filter KUBE-SERVICES: .*has no endpoints/,
      );
      assert.match(await summaryOf(onNode, "node", onNodePort), /are refused by filter KUBE-EXT/);
    });
  });

  it("falls back to terminating endpoints", async () => {
    const terminating = endpoint("10.244.1.5", {
      nodeName: "node-1",
      conditions: { ready: false, serving: true, terminating: true },
    });
    await inTables(
      [service(), endpointSlice({ endpoints: [terminating, notReady] })],
      async (onNode) => {
        assert.match(await summaryOf(onNode, pod), /over 1 of 2 endpoints and not masqueraded$/);
      },
    );
  });

  it("evaluates source ranges, and names the range", async () => {
    const spec = { loadBalancerSourceRanges: ["192.168.10.0/24"] };
    const status = { loadBalancer: { ingress: [{ ip: "203.0.113.10" }] } };
    const destination = { ...web, address: ip("203.0.113.10") };
    const loadBalancer = service({ type: "LoadBalancer", spec, status });
    await inTables([loadBalancer, endpointSlice({ endpoints: [here] })], async (onNode) => {
      const inside = await explained(onNode, client, destination);
      assert.equal(inside.packets[0]?.sourceRange, "192.168.10.0/24 lets 192.168.10.1 in");
      assert.equal(inside.verdict, "balanced");
      assert.deepEqual(inside.sourceRanges, ["192.168.10.0/24"]);
      const outside = await explained(onNode, pod, destination);
      assert.equal(outside.packets[0]?.sourceRange, "10.244.1.7 is in none of 192.168.10.0/24");
      assert.match(outside.summary, /are dropped by filter KUBE-PROXY-FIREWALL: .* -j DROP$/);
      assert.match(await summaryOf(onNode, "node", destination), /are balanced over 1 of 1/);
    });
  });

  it("shows the outcome for other ports and for virtual IPs without rules", async () => {
    await inTables(objects, async (onNode) => {
      const port = { ...web, port: 81 };
      assert.match(await summaryOf(onNode, client, port), /are routed on through eth0: 10\.96/);
      const ping = { ...web, protocol: "ICMP", port: 0 } as const;
      assert.match(await summaryOf(onNode, pod, ping), /routed on through eth0/);
      const own = { ...web, address: ip("192.168.10.11"), port: 22 };
      assert.match(await summaryOf(onNode, client, own), /reach this node itself/);
    });
  });

  it("follows a node port on 127.0.0.1, which needs route_localnet", async () => {
    const onLoopback = { ...web, address: ip("127.0.0.1"), port: nodePort };
    const given = [service({ type: "NodePort", ports }), endpointSlice({ endpoints: [here] })];
    await inTables(given, async (onNode) => {
      assert.match(
        await summaryOf(onNode, undefined, onLoopback),
        /from this node .* and masqueraded$/,
      );
      onNode.kernel.sysctl.values.set("net/ipv4/conf/all/route_localnet", "0");
      assert.match(
        await summaryOf(onNode, "node", onLoopback),
        /are dropped on their way to the endpoint: net\.ipv4\.conf\.all\.route_localnet is 0/,
      );
    });
  });

  it("reports that external packets are dropped if ip_forward is off", async () => {
    await inTables(objects, async (onNode) => {
      onNode.kernel.sysctl.values.set("net/ipv4/ip_forward", "0");
      assert.match(
        await summaryOf(onNode, client),
        /are dropped on their way to the endpoint: net\.ipv4\.ip_forward is 0/,
      );
      assert.match(await summaryOf(onNode, "node"), /are balanced over 2 of 3/);
    });
  });

  it("shows the endpoint that session affinity selects for a known client", async () => {
    const spec = { sessionAffinity: "ClientIP" };
    await inTables(
      [service({ spec }), endpointSlice({ endpoints: [here, there] })],
      async (onNode) => {
        const lists: string[] = [];
        const first = await explained(onNode, client, web, [], (list) => {
          lists.push(list);
          return lists.length === 2 ? [client] : [];
        });
        assert.equal(lists.length, 2);
        assert.deepEqual(first.connections.templates, [
          { client, realServer: "10.244.2.5:8080", state: "RECENT" },
        ]);
        assert.match(first.summary, /are balanced over 2 of 2 endpoints/);
      },
    );
  });

  it("names the owner of an address, and the losing Service", async () => {
    const spec = { externalIPs: ["198.18.0.10"] };
    const slice = endpointSlice({ endpoints: [here] });
    const given = [
      service({ spec, metadata: { creationTimestamp: "2026-01-01T00:00:00Z" } }),
      service({
        name: "late",
        clusterIps: ["10.96.0.11"],
        spec,
        metadata: { creationTimestamp: "2026-01-02T00:00:00Z" },
      }),
      slice,
      endpointSlice({ name: "late-1", service: "late", endpoints: [there] }),
    ];
    await inTables(given, async (onNode) => {
      const {
        service: served,
        losers,
        packets,
      } = await explained(onNode, client, {
        ...web,
        address: ip("198.18.0.10"),
      });
      assert.deepEqual([served?.name, losers], ["web", ["default/late"]]);
      assert.deepEqual(packets[0]?.deliveries[0]?.realServers, ["10.244.1.5:8080"]);
    });
  });

  it("finds missing and unplanned rules, and prints the planned verdict", async () => {
    await inTables(objects, async (onNode) => {
      const { iptables } = onNode.kernel;
      const chainOf = (name: string): Parameters<typeof iptables.apply>[1][number] => {
        const found = iptables
          .table("IPv4", "nat")
          .observe()
          .find((chain) => chain.name.startsWith(name));
        assert.ok(found !== undefined);
        return { kind: "chain-write", chain: { table: "nat", name: found.name, rules: [] } };
      };
      await iptables.apply("IPv4", [chainOf("KUBE-SVC-")]);
      const { verdict, packets, differences, ...explanation } = await explained(onNode, pod);
      assert.equal(verdict, "forwarded");
      assert.match(packets[0]?.planned ?? "", /are balanced over 2 of 3 endpoints and not masq/);
      const missing = differencesOf({ ...explanation, verdict, packets, differences });
      assert.equal(missing.length, 3);
      for (const text of missing) assert.match(text, /^missing rule nat KUBE-SVC-/);
    });
  });

  it("reports packets that no rule directs to an endpoint", async () => {
    await inTables(objects, async (onNode) => {
      const { iptables } = onNode.kernel;
      const { rules: planned } = await tablesRules(onNode);
      const chain = planned.find(({ name }) => name.startsWith("KUBE-SVC-")) ?? assert.fail();
      const rules = chain.rules.slice(0, -1);
      await iptables.apply("IPv4", [{ kind: "chain-write", chain: { ...chain, rules } }]);
      assert.match(
        await summaryOf(onNode, pod),
        /over 1 of 3 endpoints and not masqueraded; packets that no rule directs to an endpoint are routed on/,
      );
    });
  });
});
