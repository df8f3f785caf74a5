import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { From } from "../../../src/explain/origins.ts";
import { setFor } from "../../../src/plan/sets.ts";
import { addressPortEntry } from "../../../src/state/set-entry.ts";
import { real } from "../../contract/servers.ts";
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
import { explained, routeTo, web, withNode } from "./on-fake-node.ts";

const here = endpoint("10.244.1.5", { nodeName: "node-1" });
const there = endpoint("10.244.2.5", { nodeName: "node-2" });
const notReady = endpoint("10.244.1.9", {
  nodeName: "node-1",
  conditions: { ready: false, serving: false, terminating: false },
});
const [pod, client] = [ip("10.244.1.7"), ip("192.168.10.1")];

const objects = [service(), endpointSlice({ endpoints: [here, there, notReady] })];

describe("explain", () => {
  it("prints the verdict in one sentence", async () => {
    await withNode(objects, async (onNode) => {
      const summary = async (from: From): Promise<string> =>
        (await explained(onNode, from)).summary;
      assert.equal(
        await summary(pod),
        "Packets from 10.244.1.7 to 10.96.0.10:80 are balanced over 2 of 3 endpoints and not masqueraded",
      );
      assert.equal(
        await summary(client),
        "Packets from 192.168.10.1 to 10.96.0.10:80 are balanced over 2 of 3 endpoints and masqueraded",
      );
      assert.equal(
        await summary("node"),
        "Packets from this node to 10.96.0.10:80 are balanced over 2 of 3 endpoints and masqueraded",
      );
      assert.equal(
        (await explained(onNode, undefined)).summary,
        "Packets to 10.96.0.10:80 (default/web, cluster-ip) from this node and from elsewhere are balanced over 2 of 3 endpoints and masqueraded; from pods (10.244.0.0/16) they are balanced over 2 of 3 endpoints and not masqueraded",
      );
    });
  });

  it("finds no difference for an endpoint of this node", async () => {
    await withNode(objects, async (onNode) => {
      const to = { protocol: "TCP", address: ip("10.244.1.5"), port: 8080 } as const;
      assert.deepEqual((await explained(onNode, client, to)).differences, []);
    });
  });

  it("shows rules and entries in the packet's order, and each endpoint's reason", async () => {
    await withNode(objects, async (onNode) => {
      const { packets, endpoints, differences } = await explained(onNode, client);
      assert.deepEqual(
        packets[0]?.path.map(
          ({ chain, entry = "", isPlanned }) => `${chain} ${entry} ${isPlanned}`,
        ),
        [
          "PREROUTING  true",
          "KUBE-SERVICES 10.96.0.10,tcp:80 true",
          "KUBE-MARK-MASQ  true",
          "KUBE-SERVICES  true",
          "KUBE-SERVICES 10.96.0.10,tcp:80 true",
          "INPUT  true",
          "KUBE-IPVS-FILTER 10.96.0.10,tcp:80 true",
          "INPUT  true",
          "INPUT  true",
        ],
      );
      assert.deepEqual(
        packets[0]?.deliveries.map(({ realServers, seenSource }) => [...realServers, seenSource]),
        [
          ["10.244.1.5:8080", "10.244.1.1"],
          ["10.244.2.5:8080", "192.168.10.11"],
        ],
      );
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

  it("lists endpoints in the same order everywhere, whatever the kernel's order is", async () => {
    const [one, other] = [{ ...there, addresses: ["10.244.2.4"] }, there];
    const withEndpoints = (...endpoints: readonly (typeof there)[]): readonly ApiObject[] => [
      endpointSlice({ endpoints }),
    ];
    await withNode([service(), ...withEndpoints(other)], async (onNode) => {
      onNode.source.apply(
        ...(withEndpoints(one, other) as readonly unknown[] as readonly NamedObject[]),
      );
      await onNode.settle();
      const { packets, endpoints } = await explained(onNode, client);
      const order = ["10.244.2.4", "10.244.2.5"];
      assert.deepEqual(
        endpoints.map(({ address }) => address),
        order,
      );
      assert.deepEqual(
        packets[0]?.deliveries.flatMap(({ realServers }) => realServers),
        order.map((address) => `${address}:8080`),
      );
    });
  });

  it("skips endpoints that have reached their connection limits", async () => {
    const annotations = { "kube-ipvs.io/max-connections": "4,2" };
    const slice = endpointSlice({ endpoints: [here, there] });
    await withNode([service({ metadata: { annotations } }), slice], async (onNode) => {
      const explainedWith = async (...totals: readonly [number, number]) => {
        for (const [index, host] of ["10.244.1.5", "10.244.2.5"].entries()) {
          const counts = { active: 1, inactive: (totals[index] ?? 0) - 1 };
          onNode.kernel.ipvs.setConnections(web, { address: ip(host), port: 8080 }, counts);
        }
        const { summary, packets } = await explained(onNode, client);
        const { losses = [], deliveries = [] } = packets[0] ?? {};
        const doubts = deliveries.flatMap(({ path }) => path.filter(({ isMaybe }) => isMaybe));
        return { summary, losses, doubts: doubts.map(({ chain, rule }) => `${chain} ${rule}`) };
      };
      const all = await explainedWith(4, 5);
      assert.match(
        all.summary,
        /are refused because every endpoint has reached its connection limit$/,
      );
      assert.equal(
        all.losses[0]?.cause,
        "are refused because every endpoint has reached its connection limit",
      );
      assert.match((await explainedWith(4, 1)).summary, /are balanced over 1 of 2 endpoints/);
      const some = await explainedWith(3, 1);
      assert.match(some.summary, /are balanced over 2 of 2 endpoints/);
      assert.deepEqual(some.doubts, ["10.244.1.5:8080 limit of 4 connections"]);
    });
  });

  it("shows the masquerading that a pod needs to reach itself", async () => {
    await withNode(objects, async (onNode) => {
      const { summary, packets } = await explained(onNode, ip("10.244.1.5"));
      assert.match(summary, /masqueraded to 1 of them$/);
      assert.match(
        packets[0]?.masquerading ?? "",
        /^to itself: 10\.244\.1\.5,tcp:8080,10\.244\.1\.5 /,
      );
    });
  });

  it("shows the outcome for other ports and pings", async () => {
    await withNode(objects, async (onNode) => {
      const port = await explained(onNode, client, { ...web, port: 81 });
      assert.match(
        port.summary,
        / are refused by filter KUBE-IPVS-FILTER: .*KUBE-IPVS-IPS dst -j REJECT/,
      );
      const ping = await explained(onNode, pod, { ...web, protocol: "ICMP", port: 0 });
      assert.match(ping.summary, /to 10\.96\.0\.10\/icmp are refused/);
      const other = { ...web, address: ip("198.51.100.1") };
      assert.match((await explained(onNode, pod, other)).summary, /routed on through eth0/);
      const own = { ...web, address: ip("192.168.10.11"), port: 22 };
      assert.match((await explained(onNode, client, own)).summary, /reach this node itself/);
    });
  });

  it("evaluates source ranges, and names the range", async () => {
    const spec = { loadBalancerSourceRanges: ["192.168.10.0/30"] };
    const status = { loadBalancer: { ingress: [{ ip: "203.0.113.10" }] } };
    const destination = { ...web, address: ip("203.0.113.10") };
    await withNode(
      [service({ type: "LoadBalancer", spec, status }), endpointSlice({ endpoints: [here] })],
      async (onNode) => {
        const inside = await explained(onNode, client, destination);
        assert.equal(inside.packets[0]?.sourceRange, "192.168.10.0/30 lets 192.168.10.1 in");
        assert.equal(inside.verdict, "balanced");
        const outside = await explained(onNode, pod, destination);
        assert.equal(outside.packets[0]?.sourceRange, "10.244.1.7 is in none of 192.168.10.0/30");
        assert.match(
          outside.summary,
          /are dropped by filter KUBE-SOURCE-RANGES-FIREWALL: -j DROP$/,
        );
        const own = await explained(onNode, "node", destination);
        assert.match(own.summary, /are dropped behind IPVS by filter KUBE-IPVS-OUT-FILTER/);
      },
    );
  });

  it("finds no difference if only the kernel lists the real servers in another order", async () => {
    await withNode([service(), endpointSlice({ endpoints: [here, there] })], async (onNode) => {
      const { ipvs } = onNode.kernel;
      const list = ipvs.listRealServers.bind(ipvs);
      ipvs.listRealServers = async (ids) => (await list(ids)).map((one) => one.toReversed());
      const dropsAnswers: typeof routeTo = async (address, ...from: readonly unknown[]) =>
        from.length === 0 ? await routeTo(address) : undefined;
      const { packets } = await explained(onNode, client, web, [], () => [], dropsAnswers);
      assert.match(packets[0]?.summary ?? "", /drops its replies/);
      assert.equal(packets[0]?.planned, undefined);
    });
  });

  it("names the clients that never receive replies", async () => {
    const spec = { externalTrafficPolicy: "Local", externalIPs: ["198.18.0.10"] };
    const destination = { ...web, address: ip("198.18.0.10") };
    await withNode(
      [service({ type: "NodePort", spec }), endpointSlice({ endpoints: [there] })],
      async (onNode) => {
        const { summary } = await explained(onNode, client, destination);
        assert.match(summary, /not masqueraded, but the replies are lost: .* both behind eth0/);
        assert.match((await explained(onNode, pod, destination)).summary, /not masqueraded$/);
        assert.match(
          (await explained(onNode, "node", destination)).summary,
          /does not send replies for 198\.18\.0\.10 to this node/,
        );
      },
    );
  });

  it("follows a node port on a loopback address through the process that forwards it", async () => {
    const nodePort = 31_977;
    const ports = (["TCP", "UDP"] as const).map((protocol) =>
      servicePort({ name: protocol.toLowerCase(), protocol, nodePort }),
    );
    const slicePorts = ports.map(({ name, protocol }) => ({ name, protocol, port: 8080 }));
    const slice = endpointSlice({ endpoints: [here], ports: slicePorts });
    const tcp = { protocol: "TCP", address: ip("127.0.0.1"), port: nodePort } as const;
    const udp = { ...tcp, protocol: "UDP" } as const;
    const body = async (onNode: FakeNode): Promise<void> => {
      const { summary, verdict, forwardedTo, service, packets, differences } = await explained(
        ...([onNode, "node", udp, [{ ...udp, uid: 0 }]] as const),
      );
      assert.equal(
        summary,
        "Packets from this node to 127.0.0.1:31977/udp are forwarded by kube-ipvs to 192.168.10.11:31977/udp, where they are balanced over 1 of 1 endpoint and masqueraded",
      );
      assert.deepEqual([verdict, forwardedTo], ["balanced", "192.168.10.11:31977"]);
      assert.equal(service?.frontend, "node-port");
      assert.equal(packets.length, 2);
      assert.deepEqual(differences, []);
      const gone = await explained(onNode, undefined, tcp);
      assert.match(gone.summary, / are refused: kube-ipvs does not listen there$/);
      assert.match(gone.packets[0]?.planned ?? "", / forwarded by kube-ipvs to 192\.168\.10\.11/);
      assert.deepEqual(gone.differences, [
        { kind: "missing", subject: "kube-ipvs listener at 127.0.0.1:31977" },
      ]);
      onNode.source.apply(
        endpointSlice({ endpoints: [], ports: slicePorts }) as unknown as NamedObject,
      );
      await onNode.settle();
      const reset = await explained(onNode, "node", tcp, [{ ...tcp, uid: 0 }]);
      assert.match(
        reset.summary,
        /accepted by kube-ipvs and reset: at 192\.168\.10\.11:31977 they are refused: /,
      );
      const lost = await explained(onNode, "node", udp, [{ ...udp, uid: 0 }]);
      assert.match(lost.summary, / are lost: at /);
      assert.deepEqual([reset.verdict, lost.verdict], ["refused", "dropped"]);
    };
    const flags = { "kube-ipvs-localhost-node-ports": "true" };
    await withNode([service({ type: "NodePort", ports }), slice], body, flags);
  });

  it("finds missing objects, and prints the planned verdict", async () => {
    await withNode(objects, async (onNode) => {
      const { ipvs, ipSets, link } = onNode.kernel;
      const realServer = { address: ip("10.244.2.5"), port: 8080 };
      await ipvs.apply([{ kind: "real-server-remove", virtualServer: web, before: realServer }]);
      const entry = addressPortEntry(web.address, web.protocol, web.port);
      await ipSets.apply([{ kind: "entry-remove", set: setFor("clusterIp", "IPv4"), entry }]);
      const { verdict, packets, differences } = await explained(onNode, pod);
      assert.equal(verdict, "refused");
      assert.match(
        packets[0]?.planned ?? "",
        /are balanced over 2 of 3 endpoints and not masqueraded$/,
      );
      assert.deepEqual(
        differences.map(({ kind, subject }) => `${kind} ${subject}`),
        [
          "missing entry 10.96.0.10,tcp:80 of KUBE-CLUSTER-IP",
          "missing real server 10.244.2.5:8080 of TCP 10.96.0.10:80",
        ],
      );
      const after = real("10.244.1.5", { weight: 0 });
      await ipvs.apply([{ kind: "real-server-update", virtualServer: web, after }]);
      assert.deepEqual((await explained(onNode, pod)).differences.slice(1), [
        {
          kind: "different",
          subject: "real server 10.244.1.5:8080 of TCP 10.96.0.10:80: weight 0, planned 1",
        },
        { kind: "missing", subject: "real server 10.244.2.5:8080 of TCP 10.96.0.10:80" },
      ]);
      await link.apply([{ kind: "address-remove", address: web.address }]);
      assert.match((await explained(onNode, pod)).summary, /is not an address of this node$/);
    });
  });

  it("does not treat an entry as planned if the plan has it in another set", async () => {
    const [, ...others] = objects;
    const both = service({ spec: { externalIPs: ["203.0.113.7"] } });
    await withNode([both, ...others], async (onNode) => {
      const entry = addressPortEntry(web.address, web.protocol, web.port);
      const set = setFor("externalIp", "IPv4");
      await onNode.kernel.ipSets.apply([{ kind: "entry-add", set, entry }]);
      const { packets } = await explained(onNode, client);
      const steps = packets[0]?.path.filter((step) => step.entry === entry) ?? [];
      assert.deepEqual(
        steps.map(({ rule, isPlanned }) => [/KUBE-[A-Z-]+-IP\b/.exec(rule)?.[0], isPlanned]),
        [
          ["KUBE-CLUSTER-IP", true],
          ["KUBE-EXTERNAL-IP", false],
          ["KUBE-EXTERNAL-IP", false],
          ["KUBE-CLUSTER-IP", true],
        ],
      );
    });
  });

  it("does not report objects that are missing for another address of the Service", async () => {
    const [, ...others] = objects;
    const external = { ...web, address: ip("203.0.113.7") };
    const both = service({ spec: { externalIPs: [external.address] } });
    await withNode([both, ...others], async (onNode) => {
      const entry = addressPortEntry(external.address, external.protocol, external.port);
      const set = setFor("externalIp", "IPv4");
      await onNode.kernel.ipSets.apply([{ kind: "entry-remove", set, entry }]);
      assert.deepEqual((await explained(onNode, pod)).differences, []);
      assert.deepEqual((await explained(onNode, pod, external)).differences, [
        { kind: "missing", subject: "entry 203.0.113.7,tcp:80 of KUBE-EXTERNAL-IP" },
      ]);
    });
  });
});
