/** Tests that `explain` says when it cannot know what happens to packets, and why. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Explanation } from "../../../src/answer/explanation.ts";
import { adviceOn } from "../../../src/answer/explanation-advice.ts";
import type { IpAddress } from "../../../src/base/ip.ts";
import type { ExplainOptions } from "../../../src/explain/explain.ts";
import type { From } from "../../../src/explain/origins.ts";
import type { MarkRule } from "../../../src/state/mark-rule.ts";
import { noNftRules } from "../../../src/state/nft-rule.ts";
import type { FakeNode } from "../../support/fake-node.ts";
import { endpoint, endpointSlice, service, servicePort } from "../../support/objects.ts";
import { ip } from "../../support/records.ts";
import { explained, web, withNode } from "./on-fake-node.ts";

const objects = [
  service({ ports: [servicePort(), servicePort({ name: "dns", protocol: "UDP", port: 53 })] }),
  endpointSlice({
    endpoints: [endpoint("10.244.1.5", { nodeName: "node-1" })],
    ports: [
      { name: "http", protocol: "TCP", port: 8080 },
      { name: "dns", protocol: "UDP", port: 8080 },
    ],
  }),
];
const [neighbor, stranger] = [ip("192.168.10.1"), ip("203.0.113.9")];
const all = "net/ipv4/conf/all/rp_filter";

interface Asked {
  readonly from?: From | undefined;
  readonly options?: ExplainOptions;
  readonly markRules?: readonly MarkRule[];
  readonly flags?: Readonly<Record<string, string>>;
}

/** The node's links are eth0, eth1 and a bridge, each with an address. */
async function explanationAfter(
  damage: (onNode: FakeNode) => void | Promise<void>,
  { from, options, markRules = [], flags = {} }: Asked,
): Promise<Explanation> {
  let found: Explanation | undefined;
  const link = { isUp: true, isLoopback: false, mtuBytes: 1_500 };
  const links = [
    { ...link, index: 1, name: "lo", isLoopback: true },
    { ...link, index: 2, name: "eth0", kind: "veth" },
    { ...link, index: 4, name: "eth1" },
    { ...link, index: 5, name: "docker0", kind: "bridge" },
  ];
  await withNode(
    objects,
    async (onNode) => {
      const { kernel } = onNode;
      kernel.sysctl.values.set("net/ipv4/ip_forward", "1");
      kernel.link.setNodeAddresses([
        { address: ip("127.0.0.1"), prefixLength: 8, linkIndex: 1 },
        { address: ip("192.168.10.11"), prefixLength: 24, linkIndex: 2 },
        { address: ip("192.168.20.11"), prefixLength: 24, linkIndex: 4 },
        { address: ip("172.17.0.1"), prefixLength: 16, linkIndex: 5 },
      ]);
      await damage(onNode);
      const before = [onNode, from, web, [], undefined, undefined, options] as const;
      found = await explained(...before, noNftRules, links, { markRules });
    },
    flags,
  );
  return found ?? assert.fail();
}

function doubtsOf({ packets }: Explanation): readonly string[] {
  return packets.flatMap(({ path, deliveries }) =>
    [...path, ...deliveries.flatMap((one) => one.path)].flatMap(({ isMaybe, table, chain }) =>
      isMaybe === true ? [`${table} ${chain}`] : [],
    ),
  );
}

describe("a strict rp_filter on another link", () => {
  const strict = ({ kernel }: FakeNode): void => void kernel.sysctl.values.set(all, "1");
  const cases: readonly (readonly [string, From | undefined, ExplainOptions, boolean])[] = [
    ["for a client behind a gateway", stranger, {}, true],
    ["for clients elsewhere", undefined, {}, true],
    ["not for a neighbor", neighbor, {}, false],
    ["not for a process of this node", "node", {}, false],
    ["not if the operator names the link", stranger, { inLink: "eth0" }, false],
  ];
  for (const [title, from, options, isDoubted] of cases) {
    it(`makes the verdict uncertain, ${title}`, async () => {
      const damage = (onNode: FakeNode): void => {
        strict(onNode);
        onNode.kernel.sysctl.values.set("net/ipv4/conf/eth0/rp_filter", "1");
      };
      const found = await explanationAfter(damage, { from, options });
      assert.deepEqual(doubtsOf(found), isDoubted ? ["rp_filter eth1"] : []);
      const text =
        /; uncertain because of rp_filter eth1: strict; packets that arrive there are dropped, because the route to \S+ leaves through eth0/;
      assert.equal(text.test(found.summary), isDoubted, found.summary);
      assert.equal(
        found.packets.every(({ planned }) => planned === undefined),
        true,
      );
    });
  }

  it("does not matter if the filter is loose", async () => {
    const loose = (onNode: FakeNode): void => {
      strict(onNode);
      onNode.kernel.sysctl.values.set("net/ipv4/conf/eth1/rp_filter", "2");
    };
    assert.deepEqual(doubtsOf(await explanationAfter(loose, { from: stranger })), []);
  });
});

describe("a routing rule that selects marked packets", () => {
  const rule = { mark: 0x4000, mask: 0x4000, isNegated: false, table: 100 };
  const iptables = { "proxy-mode": "iptables" };
  const cases: readonly (readonly [
    string,
    Partial<MarkRule>,
    typeof iptables | undefined,
    string[],
  ])[] = [
    ["the mark of masquerading", {}, iptables, ["ip rule fwmark 0x4000/0x4000"]],
    ["all other packets", { isNegated: true }, iptables, ["ip rule not fwmark 0x4000/0x4000"]],
    ["a mark that the packet does not have", { mark: 0x200, mask: 0xf00 }, iptables, []],
    ["packets that IPVS sends, which it routes without a mark", {}, undefined, []],
  ];
  for (const [title, more, flags, doubts] of cases) {
    it(`is named, for ${title}: ${doubts.length}`, async () => {
      const markRules = [{ ...rule, ...more }];
      const found = await explanationAfter(() => {}, {
        from: stranger,
        markRules,
        ...(flags && { flags }),
      });
      assert.deepEqual(doubtsOf(found), doubts);
      assert.equal(
        /; uncertain because of ip rule .*: lookup 100$/.test(found.summary),
        doubts.length > 0,
      );
    });
  }
});

describe("another program's virtual server with a firewall mark", () => {
  const key = { protocol: "FWM", address: ip("0.0.0.0"), port: 0x4005 } as const;
  const interfere = async ({ kernel }: FakeNode): Promise<void> => {
    kernel.ipvs.portRangeMarks = [0xffff_ffff];
    const settings = { scheduler: "rr", persistenceTimeoutSeconds: 0, persistencePrefixLength: 32 };
    const real = { address: ip("192.168.10.99"), port: 80, weight: 1, forwardingMethod: 0 };
    await kernel.ipvs.apply([
      { kind: "virtual-server-create", after: { ...key, ...settings, flags: 0 } },
      { kind: "real-server-create", virtualServer: key, after: real },
    ]);
    kernel.iptables
      .table("IPv4", "mangle")
      .append("PREROUTING", "-s 203.0.113.0/24 -j MARK --set-xmark 0x5/0xffffffff");
  };

  it("receives packets with this mark, even if masquerading adds its own mark", async () => {
    const found = await explanationAfter(interfere, { from: stranger });
    const [packet] = found.packets;
    assert.deepEqual(packet?.deliveries[0]?.realServers, ["192.168.10.99:80"]);
    assert.ok(
      packet?.path.some(({ chain, isPlanned }) => chain === "FWM 16389 IPv4" && !isPlanned),
    );
    assert.match(found.summary, /, by other software's virtual server FWM 16389 IPv4$/);
    assert.match(packet?.planned ?? "", /are balanced over 1 of 1 endpoint/);
    assert.match(adviceOn(found).join("\n"), /virtual server FWM 16389 IPv4 \(ipvsadm -D -f\)/);
  });

  it("does not receive other packets", async () => {
    const found = await explanationAfter(interfere, { from: neighbor });
    assert.equal(found.packets[0]?.planned, undefined);
    assert.deepEqual(found.packets[0]?.deliveries[0]?.realServers, ["10.244.1.5:8080"]);
  });
});

describe("a stale conntrack entry", () => {
  const dns = { protocol: "UDP", address: web.address, port: 53 } as const;
  const flowFrom = (source: IpAddress, replySource: IpAddress) => ({
    ...{ protocol: "UDP" as const, source, sourcePort: 5_353 },
    ...{ destination: dns.address, destinationPort: dns.port, replySource, replySourcePort: 8_080 },
  });
  const summary = async (from: From | undefined, flows: ReturnType<typeof flowFrom>[]) => {
    let text = "";
    await withNode(objects, async (onNode) => {
      const defaults = [undefined, undefined, undefined, undefined, undefined] as const;
      const explanation = await explained(onNode, from, dns, [], ...defaults, { flows });
      text = explanation.summary;
    });
    return text;
  };

  it("makes the verdict uncertain", async () => {
    assert.match(
      await summary(stranger, [flowFrom(stranger, ip("10.244.1.99"))]),
      /; uncertain because of conntrack entries: 203\.0\.113\.9:5353 -> 10\.244\.1\.99:8080, which is not an endpoint$/,
    );
  });

  it("does not matter if the entry leads to an endpoint", async () => {
    assert.doesNotMatch(
      await summary(stranger, [flowFrom(stranger, ip("10.244.1.5"))]),
      /uncertain/,
    );
  });
});
