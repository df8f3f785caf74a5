import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Explanation } from "../../../src/answer/explanation.ts";
import type { IpAddress } from "../../../src/base/ip.ts";
import type { From } from "../../../src/explain/origins.ts";
import type { Routes } from "../../../src/kernel/route.ts";
import type { IpSet } from "../../../src/state/ip-set.ts";
import type { TableName } from "../../../src/state/rule.ts";
import type { FakeNode } from "../../support/fake-node.ts";
import { endpoint, endpointSlice, service } from "../../support/objects.ts";
import { ip } from "../../support/records.ts";
import { explained, routeTo, web, withNode } from "./on-fake-node.ts";

const objects = [
  service(),
  endpointSlice({ endpoints: [endpoint("10.244.1.5", { nodeName: "node-1" })] }),
];
const [pod, client] = [ip("10.244.1.7"), ip("192.168.10.1")];

function table({ kernel }: FakeNode, name: TableName) {
  return kernel.iptables.table("IPv4", name);
}

async function verdictAfter(
  damage: (onNode: FakeNode) => void,
  from: From,
  flags: Readonly<Record<string, string>> = {},
  destination = web,
): Promise<Explanation> {
  let explanation: Explanation | undefined;
  await withNode(
    objects,
    async (onNode) => {
      onNode.kernel.sysctl.values.set("net/ipv4/ip_forward", "1");
      damage(onNode);
      explanation = await explained(onNode, from, destination);
    },
    flags,
  );
  return explanation ?? assert.fail();
}

async function summaryThrough(
  inLink: string,
  sysctls: Readonly<Record<string, string>>,
): Promise<string> {
  let summary = "";
  await withNode(objects, async (onNode) => {
    for (const [path, value] of Object.entries(sysctls))
      onNode.kernel.sysctl.values.set(path, value);
    ({ summary } = await explained(onNode, client, web, [], undefined, undefined, {
      inLink,
    }));
  });
  return summary;
}

for (const mode of ["ipvs", "iptables"]) {
  const flags = { "proxy-mode": mode };
  describe(`explain with packets that other software drops in ${mode} mode`, () => {
    it("names a rule in raw", async () => {
      const found = await verdictAfter(
        (onNode) => table(onNode, "raw").append("PREROUTING", "-d 10.96.0.10/32 -j DROP"),
        client,
        flags,
      );
      assert.equal(found.verdict, "dropped");
      assert.match(found.summary, /are dropped by raw PREROUTING: -d 10\.96\.0\.10\/32 -j DROP$/);
      assert.match(found.packets[0]?.planned ?? "", /are balanced over 1 of 1 endpoint/);
      assert.deepEqual(found.packets[0]?.losses, [
        { cause: "are dropped by raw PREROUTING: -d 10.96.0.10/32 -j DROP", isCertain: true },
      ]);
    });

    it("follows third-party chains", async () => {
      const found = await verdictAfter(
        (onNode) => {
          table(onNode, "mangle").append("other-rules", "-s 192.168.10.0/24 -j DROP");
          table(onNode, "mangle").append("PREROUTING", "-j other-rules");
        },
        client,
        flags,
      );
      assert.match(found.summary, /are dropped by mangle other-rules: -s 192\.168\.10\.0\/24 /);
    });

    it("names a rule that drops replies from pods", async () => {
      const found = await verdictAfter(
        (onNode) => table(onNode, "raw").append("PREROUTING", "-s 10.244.1.5/32 -j DROP"),
        "node",
        flags,
      );
      assert.equal(found.verdict, "dropped");
      assert.match(found.summary, /its replies are dropped by raw PREROUTING: -s 10\.244\.1\.5/);
    });

    it("names a rule that drops only packets after the first reply", async () => {
      for (const match of ["--tcp-flags SYN,ACK ACK", "-m conntrack --ctstate ESTABLISHED"]) {
        const found = await verdictAfter(
          (onNode) => table(onNode, "mangle").append("OUTPUT", `-p tcp -m tcp ${match} -j DROP`),
          "node",
          flags,
        );
        assert.equal(found.verdict, "dropped");
        assert.match(found.summary, /connection's later packets are dropped by mangle OUTPUT/);
      }
    });

    it("ignores a policy if rules of kube-ipvs accept the packets before it", async () => {
      const found = await verdictAfter(
        (onNode) => table(onNode, "filter").drop("FORWARD"),
        client,
        flags,
      );
      assert.equal(found.verdict, "balanced");
    });

    it("names rules that it cannot evaluate before a policy", async () => {
      const [chain, from] = mode === "ipvs" ? ["INPUT", client] : ["FORWARD", client];
      const found = await verdictAfter(
        (onNode) => {
          const filter = table(onNode, "filter");
          filter.remove(chain, /KUBE-(?:FORWARD|IPVS)/);
          filter.append(chain, "-m owner --uid-owner 0 -j ACCEPT");
          filter.drop(chain);
        },
        from,
        flags,
      );
      assert.equal(found.verdict, "dropped");
      assert.match(
        found.summary,
        new RegExp(
          `by filter ${chain}: policy DROP, unless a rule that is not evaluated lets them through ` +
            `\\(filter ${chain}: -m owner --uid-owner 0 -j ACCEPT\\)`,
        ),
      );
      assert.equal(found.packets[0]?.losses[0]?.isCertain, false);
    });
  });
}

describe("explain in IPVS mode", () => {
  it("names a rule that drops this node's ICMP errors", async () => {
    const summaryWith = async (rule: string): Promise<string> => {
      let summary = "";
      const objectsWithout = [service(), endpointSlice({ endpoints: [] })];
      await withNode(objectsWithout, async (onNode) => {
        table(onNode, "mangle").append("POSTROUTING", rule);
        ({ summary } = await explained(onNode, client));
      });
      return summary;
    };
    assert.match(
      await summaryWith("-s 10.96.0.0/16 -o eth0 -j DROP"),
      /are dropped on the way back: the ICMP error "port unreachable" is dropped by mangle POSTROUTING: -s 10\.96\.0\.0\/16/,
    );
    assert.match(await summaryWith("-m conntrack --ctstate INVALID -j DROP"), /"port unreachable"/);
    for (const passes of ["-p tcp -m tcp --sport 80 -j DROP", "-m conntrack --ctstate NEW -j DROP"])
      assert.match(await summaryWith(passes), /are refused/);
  });

  it("follows replies to a masqueraded client by the address that the endpoint saw", async () => {
    const found = await verdictAfter(
      (onNode) => table(onNode, "raw").append("PREROUTING", "-d 10.96.0.10/32 -j DROP"),
      "node",
      { "cluster-cidr": "10.244.0.0/16" },
    );
    assert.match(found.summary, /are balanced over 1 of 1 endpoint and masqueraded$/);
  });

  it("reports that a strict rp_filter drops packets from a link that does not lead back to the client", async () => {
    const strict = async (link: string): Promise<string> =>
      await summaryThrough(link, {
        "net/ipv4/conf/all/rp_filter": "1",
        [`net/ipv4/conf/${link}/rp_filter`]: "0",
      });
    assert.match(
      await strict("eth1"),
      /are dropped by the strict reverse-path check: rp_filter of eth1 is 1, and the route to 192\.168\.10\.1 leaves through eth0$/,
    );
    assert.match(await strict("eth0"), /are balanced/);
    const loose = { "net/ipv4/conf/all/rp_filter": "1", "net/ipv4/conf/eth1/rp_filter": "2" };
    assert.match(await summaryThrough("eth1", loose), /are balanced/);
    await assert.rejects(summaryThrough("eth7", {}), /--in: there is no interface eth7/);
  });

  it("names the policy of INPUT, which packets from external clients traverse before IPVS", async () => {
    const { verdict, summary, packets } = await verdictAfter(
      (onNode) => table(onNode, "filter").drop("INPUT"),
      pod,
    );
    assert.equal(verdict, "dropped");
    assert.match(summary, /are dropped by filter INPUT: policy DROP$/);
    assert.match(packets[0]?.planned ?? "", /are balanced/);
  });

  it("follows packets to other hosts through POSTROUTING", async () => {
    await withNode(objects, async (onNode) => {
      onNode.kernel.sysctl.values.set("net/ipv4/ip_forward", "1");
      table(onNode, "mangle").append("POSTROUTING", "-d 10.244.1.5/32 -j DROP");
      const to = { protocol: "TCP", address: ip("10.244.1.5"), port: 8080 } as const;
      assert.equal((await explained(onNode, client, to)).verdict, "dropped");
    });
  });

  it("reports that a client without a route back receives no reply", async () => {
    await withNode(objects, async (onNode) => {
      onNode.kernel.sysctl.values.set("net/ipv4/ip_forward", "1");
      const find = async (address: IpAddress) =>
        address === client
          ? undefined
          : { isLocal: false, isBridge: false, link: "eth0", linkIndex: 2 };
      const { verdict, summary } = await explained(onNode, client, web, [], undefined, find);
      assert.equal(verdict, "dropped");
      assert.match(
        summary,
        /because of the missing return path: there is no route to 192\.168\.10\.1, /,
      );
    });
  });

  it("reports that replies are forwarded, and which rule drops them", async () => {
    const { verdict, summary } = await verdictAfter((onNode) => {
      table(onNode, "filter").remove("FORWARD", /KUBE-FORWARD/);
      table(onNode, "filter").append("FORWARD", "-j DROP");
    }, client);
    assert.equal(verdict, "dropped");
    assert.match(
      summary,
      /are dropped behind IPVS: its replies are dropped by filter FORWARD: -j DROP$/,
    );
  });

  it("reports a missing route to an endpoint", async () => {
    await withNode(objects, async (onNode) => {
      const back = { isLocal: false, isBridge: false, link: "eth0", linkIndex: 2 };
      const find = async (address: IpAddress) => (address === client ? back : undefined);
      const { verdict, summary } = await explained(onNode, client, web, [], undefined, find);
      assert.equal(verdict, "dropped");
      assert.match(
        summary,
        /are dropped behind IPVS: there is no route to 10\.244\.1\.5, or the route rejects packets/,
      );
    });
  });

  it("reports that a local process loses packets to a local endpoint if the address is missing on the node", async () => {
    const onNode = endpointSlice({
      endpoints: [endpoint("192.168.10.11", { nodeName: "node-1" })],
    });
    await withNode([service(), onNode], async (fake) => {
      assert.match((await explained(fake, "node")).summary, /balanced over 1 of 1 endpoint/);
      await fake.kernel.link.apply([{ kind: "address-remove", address: web.address }]);
      assert.match(
        (await explained(fake, "node")).summary,
        /10\.96\.0\.10 is not an address of this node, so the packet leaves the node instead of reaching 192\.168\.10\.11/,
      );
    });
  });

  it("reports replies that a routing rule drops", async () => {
    await withNode(objects, async (onNode) => {
      const asked: string[] = [];
      const find: Routes["find"] = async (address, arrival) => {
        if (arrival === undefined) return routeTo(address);
        asked.push(`${address} from ${arrival.source} through link ${arrival.linkIndex}`);
        return undefined;
      };
      const { verdict, summary } = await explained(onNode, client, web, [], undefined, find);
      assert.equal(verdict, "dropped");
      assert.match(
        summary,
        /: a route or routing rule drops its replies \(ip rule; ip route get 192\.168\.10\.1 from 10\.244\.1\.5 iif veth10\.244\.1\.5\)$/,
      );
      assert.deepEqual(asked, ["192.168.10.1 from 10.244.1.5 through link 3"]);
      const { summary: fromNode } = await explained(onNode, "node", web, [], undefined, find);
      assert.match(fromNode, /are balanced/);
    });
  });

  it("evaluates ports, interfaces and TCP flags in third-party rules, and jumps with -g", async () => {
    const filtered = async (chain: "INPUT" | "FORWARD", ...rules: readonly string[]) =>
      await verdictAfter((onNode) => {
        const filter = table(onNode, "filter");
        filter.remove(chain, /KUBE-(?:FORWARD|IPVS)/);
        filter.append("zone", "-p tcp -m multiport --dports 22,80:90 -j ACCEPT");
        filter.append("zone", "-p udp -m udp --sport 67 --dport 68 -j DROP");
        for (const rule of rules) filter.append(chain, rule);
      }, client);
    const accepted = await filtered("INPUT", "-i eth0 -g zone", "-j DROP");
    assert.match(accepted.summary, /are balanced over 1 of 1 endpoint/);
    const afterGoto = await filtered(
      "INPUT",
      "-i eth+ -p icmp -j ACCEPT",
      "-s 0.0.0.0/0 -g none",
      "-j DROP",
    );
    assert.match(afterGoto.summary, /are balanced/);
    const dropped = await filtered(
      "INPUT",
      "-i eth0 -o veth1 -j ACCEPT",
      "-p tcp -m tcp --dport 100:200 -j ACCEPT",
      "-j DROP",
    );
    assert.match(dropped.summary, /are dropped by filter INPUT: -j DROP$/);
    const fromHighPort = "-p tcp -m tcp --sport 1024:65535 --dport 80 -j ACCEPT";
    assert.match((await filtered("INPUT", fromHighPort, "-j DROP")).summary, /are balanced/);
    const { packets } = await filtered("INPUT", "-p tcp -m tcp --sport 1:200 -j ACCEPT", "-j DROP");
    assert.deepEqual(
      packets.flatMap(({ losses }) => losses.map(({ isCertain }) => isCertain)),
      [true],
    );
    const answers = "-o eth0 -p tcp -m tcp --sport 8080 --tcp-flags SYN,ACK SYN,ACK -j DROP";
    assert.match(
      (await filtered("FORWARD", answers)).summary,
      /its replies are dropped by filter FORWARD: -o eth0/,
    );
    const requests = "-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j DROP";
    assert.match((await filtered("FORWARD", requests)).summary, /are balanced/);
  });

  it("treats packets in the raw table as invalid, because they are not tracked yet", async () => {
    const verdictIn = async (where: "raw" | "mangle", state: string): Promise<string> => {
      const rule = `-d 10.96.0.10/32 -m conntrack --ctstate ${state} -j DROP`;
      const add = (onNode: FakeNode): void => table(onNode, where).append("PREROUTING", rule);
      return (await verdictAfter(add, client)).verdict;
    };
    assert.equal(await verdictIn("raw", "INVALID"), "dropped");
    assert.equal(await verdictIn("raw", "NEW"), "balanced");
    assert.equal(await verdictIn("mangle", "INVALID"), "balanced");
    assert.equal(await verdictIn("mangle", "NEW"), "dropped");
  });

  describe("with third-party sets", () => {
    const put = ({ kernel }: FakeNode, type: string, ...entries: readonly string[]): void => {
      const set = { name: "other", type, family: "IPv4", maxElements: 65_536 } as const;
      kernel.ipSets.put(set as unknown as IpSet, entries);
    };
    const droppedBy = async (
      match: string,
      type: string,
      ...entries: readonly string[]
    ): Promise<string> => {
      // The answer does not match.
      const rule = `-d 10.96.0.10/32 ${match} -j DROP`;
      const { verdict, packets } = await verdictAfter((onNode) => {
        put(onNode, type, ...entries);
        table(onNode, "raw").append("PREROUTING", rule);
      }, client);
      return packets.some(({ path }) => path.some(({ isMaybe }) => isMaybe === true))
        ? "may"
        : verdict;
    };
    const from = "-m set --match-set other src";
    const to = "-m set --match-set other dst,dst";
    /** The client is 192.168.10.1, and the destination is 10.96.0.10 with TCP port 80. */
    const cases: readonly (readonly [
      wanted: string,
      match: string,
      ...set: [string, ...string[]],
    ])[] = [
      ["dropped", from, "hash:ip", "192.168.10.1"],
      ["balanced", from, "hash:ip", "192.168.10.2"],
      ["balanced", "-m set ! --match-set other src", "hash:ip", "192.168.10.1"],
      ["dropped", "-m set ! --match-set other src", "hash:ip", "192.168.10.2"],
      ["dropped", from, "hash:net", "192.168.0.0/16"],
      ["dropped", from, "bitmap:ip", "192.168.10.1"],
      ["balanced", from, "hash:net", "192.168.0.0/16", "192.168.10.0/24 nomatch"],
      ["dropped", from, "hash:net", "192.168.0.0/16 nomatch", "192.168.10.1"],
      ["dropped", `${from} ${from}`, "hash:net", "192.168.10.1"],
      ["dropped", to, "hash:ip,port", "10.96.0.10,tcp:80"],
      ["balanced", to, "hash:ip,port", "10.96.0.10,udp:80"],
      ["dropped", to, "hash:net,port", "10.96.0.0/16,tcp:80"],
      ["balanced", to, "hash:net,port", "10.96.0.0/16,tcp:80", "10.96.0.10,tcp:80 nomatch"],
      ["dropped", "-m set --match-set other dst", "bitmap:port", "80"],
      ["dropped", `${from},dst`, "hash:net,net", "192.168.0.0/16,10.96.0.0/12"],
      ["dropped", `${to},src`, "hash:net,port,net", "10.96.0.0/16,tcp:80,192.168.0.0/16"],
      // The kernel requires a direction for each part.
      ["balanced", from, "hash:net,net", "192.168.0.0/16,10.96.0.0/12"],
      // The client's port is at least 32768.
      ["may", `${from},src`, "hash:ip,port", "192.168.10.1,tcp:40000"],
      ["balanced", `${from},src`, "hash:ip,port", "192.168.10.1,tcp:80"],
      ["may", from, "bitmap:port", "40000"],
      ["balanced", from, "bitmap:port", "80"],
      ["may", `${from} --return-nomatch`, "hash:net", "192.168.10.1"],
      ["may", "-m set --match-set unread src", "hash:ip"],
    ];
    for (const [wanted, match, type, ...entries] of cases)
      it(`${wanted}: ${match}, ${type} ${entries.join(" and ")}`, async () => {
        assert.equal(await droppedBy(match, type, ...entries), wanted);
      });

    it("matches no packets in the other family", async () => {
      const { verdict } = await verdictAfter((onNode) => {
        const set = { name: "other", type: "hash:ip", family: "IPv6", maxElements: 8 } as const;
        onNode.kernel.ipSets.put(set, ["192.168.10.1"]);
        table(onNode, "raw").append("PREROUTING", `${from} -j DROP`);
      }, client);
      assert.equal(verdict, "balanced");
    });
  });

  it("applies rules to packets between ports of a bridge only if netfilter sees them", async () => {
    const verdictWith = async (isFiltered: string): Promise<string | undefined> => {
      let verdict: string | undefined;
      await withNode(objects, async (onNode) => {
        onNode.kernel.sysctl.values.set("net/ipv4/ip_forward", "1");
        onNode.kernel.sysctl.values.set("net/bridge/bridge-nf-call-iptables", isFiltered);
        table(onNode, "raw").append("PREROUTING", "-s 10.244.1.7/32 -j DROP");
        const find = async () => ({ isLocal: false, isBridge: true, link: "cni0", linkIndex: 2 });
        const to = { protocol: "TCP", address: ip("10.244.1.5"), port: 8080 } as const;
        ({ verdict } = await explained(onNode, pod, to, [], undefined, find));
      });
      return verdict;
    };
    assert.equal(await verdictWith("0"), "forwarded");
    assert.equal(await verdictWith("1"), "dropped");
  });

  it("ignores this node's route to an address in the same bridge network as the client", async () => {
    await withNode(objects, async (onNode) => {
      const beside = { protocol: "TCP", address: ip("192.168.10.77"), port: 8080 } as const;
      const bridge = { isLocal: false, isBridge: true, link: "br0", linkIndex: 2 };
      const find: typeof routeTo = async (address) =>
        address === beside.address ? undefined : bridge;
      for (const isFiltered of ["0", "1"]) {
        onNode.kernel.sysctl.values.set("net/ipv4/ip_forward", "1");
        onNode.kernel.sysctl.values.set("net/bridge/bridge-nf-call-iptables", isFiltered);
        const from = ip("192.168.10.1");
        const { summary } = await explained(onNode, from, beside, [], undefined, find);
        assert.match(summary, /are routed on through br0/, isFiltered);
      }
    });
  });

  it("does not apply FORWARD rules to packets that the kernel does not route", async () => {
    await withNode(objects, async (onNode) => {
      onNode.kernel.sysctl.values.set("net/ipv4/ip_forward", "0");
      table(onNode, "filter").append("FORWARD", "-j REJECT --reject-with icmp-port-unreachable");
      const host = { protocol: "TCP", address: ip("192.168.99.1"), port: 22 } as const;
      const { summary } = await explained(onNode, client, host);
      assert.match(summary, /are dropped because net\.ipv4\.ip_forward is 0/);
    });
  });

  it("shows a full conntrack table as a possible loss", async () => {
    const doubts = async (count: string) => {
      const { packets } = await verdictAfter(({ kernel }) => {
        kernel.sysctl.values.set("net/netfilter/nf_conntrack_count", count);
        kernel.sysctl.values.set("net/netfilter/nf_conntrack_max", "8");
      }, client);
      return packets[0]?.path.flatMap(({ isMaybe, rule }) => (isMaybe === true ? [rule] : []));
    };
    assert.deepEqual(await doubts("7"), []);
    assert.deepEqual(await doubts("8"), ["the table is full (net.netfilter.nf_conntrack_max)"]);
  });

  it("assumes that clients elsewhere are behind the default route", async () => {
    const elsewhere = async (rule: string, find = routeTo) => {
      let found: Explanation | undefined;
      await withNode(objects, async (onNode) => {
        const filter = table(onNode, "filter");
        filter.remove("INPUT", /KUBE-/);
        filter.append("INPUT", rule);
        found = await explained(onNode, undefined, web, [], undefined, find);
      });
      const packets = (found as Explanation | undefined)?.packets;
      const packet = packets?.find(({ from }) => from === "elsewhere") ?? assert.fail();
      const isMaybe = packet.path.some((step) => step.isMaybe === true);
      return [packet.verdict, isMaybe ? "may" : "certain"];
    };
    const drop = (link: string) => `-i ${link} -p tcp -m tcp --dport 80 -j DROP`;
    assert.deepEqual(await elsewhere(drop("eth0")), ["dropped", "certain"]);
    assert.deepEqual(await elsewhere(drop("eth1")), ["balanced", "certain"]);
    const none: typeof routeTo = async (address) =>
      address === "192.0.2.1" ? undefined : await routeTo(address);
    assert.deepEqual(await elsewhere(drop("eth0"), none), ["balanced", "may"]);
    assert.deepEqual(await elsewhere(drop("lo"), none), ["balanced", "certain"]);
  });

  it("matches the loopback link for packets from this node to itself", async () => {
    await withNode(objects, async (onNode) => {
      const filter = table(onNode, "filter");
      filter.remove("INPUT", /KUBE-/);
      filter.append("INPUT", "! -i lo -d 10.96.0.10/32 -j DROP");
      filter.append("INPUT", "-i lo -j ACCEPT");
      filter.append("INPUT", "-j DROP");
      for (const from of ["node", web.address] as const)
        assert.equal((await explained(onNode, from, { ...web, port: 81 })).verdict, "node");
    });
  });

  it("reports rules that see packets from IPVS with the endpoint as destination", async () => {
    const { summary } = await verdictAfter(
      (onNode) => table(onNode, "raw").append("OUTPUT", "-d 10.244.1.5/32 -j DROP"),
      client,
    );
    assert.match(summary, /are dropped behind IPVS by raw OUTPUT: -d 10\.244\.1\.5\/32 -j DROP$/);
  });

  it("reports that replies are lost on a node with forwarding disabled", async () => {
    const { summary } = await verdictAfter(
      ({ kernel }) => kernel.sysctl.values.set("net/ipv4/ip_forward", "0"),
      client,
    );
    assert.match(summary, /net\.ipv4\.ip_forward is 0, so this node forwards nothing$/);
  });

  it("reports that the node drops replies to a loopback address that a third party masquerades", async () => {
    const masquerade = (onNode: FakeNode): void =>
      table(onNode, "nat").append("POSTROUTING", "-s 127.0.0.0/8 -j MASQUERADE");
    const { summary } = await verdictAfter(masquerade, ip("127.0.0.1"), { "cluster-cidr": "" });
    assert.match(summary, /route_localnet is 0, so this node drops replies to 127\.0\.0\.1$/);
  });

  it("reports that a loopback client does not receive the rejection of a packet to another host", async () => {
    const reject = (onNode: FakeNode): void =>
      table(onNode, "filter").append("OUTPUT", "-p tcp -m tcp --dport 8080 -j REJECT");
    assert.equal((await verdictAfter(reject, ip("127.0.0.1"))).verdict, "dropped");
    assert.equal((await verdictAfter(reject, "node")).verdict, "refused");
  });

  it("reports that other hosts drop packets from ::1", async () => {
    const { summary } = await verdictAfter(
      () => {},
      ip("::1"),
      {},
      {
        ...web,
        address: ip("2001:db8::77"),
      },
    );
    assert.match(summary, /are dropped by the receiving host, which accepts ::1 only from itself$/);
  });

  it("reports that a rule rejects packets from ::1 before they leave the node", async () => {
    const reject = "-d 2001:db8::77/128 -j REJECT --reject-with tcp-reset";
    const { verdict } = await verdictAfter(
      ({ kernel }) => kernel.iptables.table("IPv6", "filter").append("OUTPUT", reject),
      ip("::1"),
      {},
      { ...web, address: ip("2001:db8::77") },
    );
    assert.equal(verdict, "refused");
  });

  it("reports that packets from ::1 stay on the node even if a third party masquerades them", async () => {
    const [web6, source] = [{ ...web, address: ip("fd00::10") }, ip("fd00:2::11")];
    const [service6, slice6] = [
      service({ clusterIps: [web6.address] }),
      endpointSlice({ endpoints: ["fd00:1::5"] }),
    ];
    await withNode(
      [service6, slice6],
      async (onNode) => {
        onNode.kernel.iptables.table("IPv6", "nat").append("POSTROUTING", "-j MASQUERADE");
        const route = { isLocal: false, isBridge: false, link: "eth0", linkIndex: 2, source };
        const { verdict, summary } = await explained(
          ...([onNode, ip("::1"), web6, [], undefined, async () => route] as const),
        );
        assert.equal(verdict, "dropped");
        assert.match(
          summary,
          /packets from ::1 do not leave this node, even if a rule masquerades/,
        );
      },
      { "cluster-cidr": "" },
    );
  });

  it("reports that endpoints drop packets from a loopback address", async () => {
    const { summary } = await verdictAfter(() => {}, ip("127.0.0.1"), { "cluster-cidr": "" });
    assert.match(summary, /endpoints drop packets from 127\.0\.0\.1$/);
  });
});
