/** Tests third-party nftables rules, given as the kernel's expressions. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Destination } from "../../../src/answer/answers.ts";
import type { Explanation } from "../../../src/answer/explanation.ts";
import { ipAddressToBytes } from "../../../src/base/ip.ts";
import type { From } from "../../../src/explain/origins.ts";
import { type RecordedNode, readRecorded, recordedText } from "../../../src/explain/recorded.ts";
import {
  type NftExpression,
  type NftHook,
  type NftRuleset,
  type NftSet,
  type NftSource,
  type NftVerdict,
  nftKey,
} from "../../../src/state/nft-rule.ts";
import { endpoint, endpointSlice, service } from "../../support/objects.ts";
import { ip } from "../../support/records.ts";
import { explained, routeTo, web, withNode } from "./on-fake-node.ts";

const client = ip("192.168.10.1");
const objects = [
  service(),
  endpointSlice({ endpoints: [endpoint("10.244.1.5", { nodeName: "node-1" })] }),
];

function load(source: NftSource): NftExpression {
  return { kind: "load", source, register: 16 };
}

function compare(...value: readonly number[]): NftExpression {
  return { kind: "compare", register: 16, operator: "==", value: Uint8Array.from(value) };
}

function lookup(set: string, options: Partial<NftExpression> = {}): NftExpression {
  return {
    kind: "lookup",
    register: 16,
    set,
    isNegated: false,
    hasVerdict: false,
    ...options,
  } as NftExpression;
}

function verdict(kind: "accept" | "drop" | "reject" | "return"): NftExpression {
  return { kind: "verdict", verdict: { kind } };
}

const link = { kind: "veth", isUp: true, isLoopback: false, mtuBytes: 1_500 } as const;
/** The link `veth7` is a port of the bridge `veth10.244.1.5`. */
const links = [
  { ...link, index: 3, name: "veth10.244.1.5" },
  { ...link, index: 7, name: "veth7", bridgeIndex: 3 },
  { ...link, index: 8, name: "veth8" },
];
const destinationPort = load({ from: "transport", offset: 2, length: 2 });
const source = load({ from: "network", offset: 12, length: 4 });
const limit: NftExpression = { kind: "unknown", name: "limit", isEnd: false };
const port80 = [destinationPort, compare(0, 80)];

interface Given {
  readonly hook?: NftHook;
  readonly priority?: number;
  readonly isDropPolicy?: boolean;
  readonly rules: Readonly<Record<string, readonly NftExpression[]>>;
  readonly others?: Readonly<Record<string, readonly NftExpression[]>>;
  readonly sets?: Readonly<Record<string, NftSet>>;
}

/** A ruleset with one base chain, `inet fw input`. The keys are the texts of rules. */
function ruleset({
  hook = "INPUT",
  priority = 0,
  isDropPolicy = false,
  ...given
}: Given): NftRuleset {
  const listed = (rules: Given["rules"]) =>
    Object.entries(rules).map(([text, expressions]) => ({ text, expressions }));
  const { rules, others = {}, sets = {} } = given;
  return {
    baseChains: [{ table: "inet fw", name: "input", hook, priority, isDropPolicy }],
    chains: new Map([
      [nftKey("inet fw", "input"), listed(rules)],
      [nftKey("inet fw", "others"), listed(others)],
    ]),
    sets: new Map(Object.entries(sets).map(([name, set]) => [nftKey("inet fw", name), set])),
  };
}

async function explainedWith(
  nft: NftRuleset,
  from: From | "anybody" = client,
  mode = "ipvs",
  destination: Destination = web,
  find = routeTo,
  isBridgeFiltered = "0",
): Promise<Explanation> {
  let explanation: Explanation | undefined;
  await withNode(
    objects,
    async (onNode) => {
      onNode.kernel.sysctl.values.set("net/ipv4/ip_forward", "1");
      onNode.kernel.sysctl.values.set("net/bridge/bridge-nf-call-iptables", isBridgeFiltered);
      explanation = await explained(
        onNode,
        from === "anybody" ? undefined : from,
        destination,
        [],
        undefined,
        find,
        {},
        nft,
        links,
      );
    },
    { "proxy-mode": mode },
  );
  return explanation ?? assert.fail();
}

function ports(...keys: readonly (readonly [number, boolean, NftVerdict?])[]): NftSet {
  return {
    keyLength: 2,
    isInterval: keys.some(([, isEnd]) => isEnd),
    elements: keys.map(([port, isEnd, of]) => ({
      key: Uint8Array.from([port >> 8, port & 255]),
      isEnd,
      ...(of === undefined ? {} : { verdict: of }),
    })),
  };
}

const balanced = /are balanced over 1 of 1 endpoint/;

describe("explain with third-party nftables rules", () => {
  it("names the table, chain and rule that drop packets, in the order of chain priorities", async () => {
    for (const hook of ["PREROUTING", "INPUT"] as const) {
      for (const priority of [-310, -200, 0, 10]) {
        const nft = ruleset({
          hook,
          priority,
          rules: { "th dport 80 drop": [...port80, verdict("drop")] },
        });
        const { summary, packets } = await explainedWith(nft);
        assert.match(
          summary,
          /are dropped by inet fw input: th dport 80 drop$/,
          `${hook} ${priority}`,
        );
        assert.deepEqual(packets[0]?.losses, [
          { cause: "are dropped by inet fw input: th dport 80 drop", isCertain: true },
        ]);
        assert.match(packets[0]?.planned ?? "", balanced);
      }
    }
  });

  it("names the policy, unless a rule accepts the packets", async () => {
    const drops = await explainedWith(ruleset({ isDropPolicy: true, rules: {} }));
    assert.match(drops.summary, /are dropped by inet fw input: policy drop$/);
    const accepts = { "th dport 80 accept": [...port80, verdict("accept")] };
    assert.match(
      (await explainedWith(ruleset({ isDropPolicy: true, rules: accepts }))).summary,
      balanced,
    );
    const others = { "th dport 81 accept": [destinationPort, compare(0, 81), verdict("accept")] };
    assert.match(
      (await explainedWith(ruleset({ isDropPolicy: true, rules: others }))).summary,
      /policy drop$/,
    );
  });

  it("evaluates sets, intervals and verdict maps", async () => {
    const dropIn = async (set: NftSet, options: Partial<NftExpression> = {}) => {
      const rule = [destinationPort, lookup("ports", options), verdict("drop")];
      return (await explainedWith(ruleset({ rules: { rule }, sets: { ports: set } }))).verdict;
    };
    assert.equal(await dropIn(ports([22, false], [80, false])), "dropped");
    assert.equal(await dropIn(ports([22, false], [443, false])), "balanced");
    assert.equal(await dropIn(ports([22, false], [443, false]), { isNegated: true }), "dropped");
    assert.equal(await dropIn(ports([70, false], [90, true])), "dropped");
    assert.equal(await dropIn(ports([70, false], [80, true])), "balanced");
    // The end of one interval is the start of the next.
    assert.equal(await dropIn(ports([70, false], [80, true], [80, false], [90, true])), "dropped");
    const map = ports([80, false, { kind: "jump", chain: "others" }]);
    const rules = { vmap: [destinationPort, lookup("ports", { hasVerdict: true })] };
    const others = { reject: [verdict("reject")] };
    const jumped = await explainedWith(ruleset({ rules, others, sets: { ports: map } }));
    assert.match(jumped.summary, /are refused by inet fw others: reject$/);
  });

  it("treats a rule that cannot be evaluated as a possible match", async () => {
    const drops = await explainedWith(
      ruleset({ rules: { "limit drop": [limit, verdict("drop")] } }),
    );
    assert.match(drops.summary, balanced);
    const [packet = assert.fail()] = drops.packets;
    assert.deepEqual(packet.losses, []);
    assert.deepEqual(
      packet.path
        .filter(({ isMaybe }) => isMaybe)
        .map(({ table, chain, rule }) => `${table} ${chain} ${rule}`),
      ["inet fw input limit drop"],
    );
    const rules = { "limit accept": [limit, verdict("accept")] };
    const accepts = await explainedWith(ruleset({ isDropPolicy: true, rules }));
    assert.match(
      accepts.summary,
      /policy drop, unless a rule that is not evaluated lets them through \(inet fw input: limit accept\)$/,
    );
    assert.equal(accepts.packets[0]?.losses[0]?.isCertain, false);
    // One known bit is enough for a rule not to match.
    const other = {
      "th dport 81 limit drop": [destinationPort, compare(0, 81), limit, verdict("drop")],
    };
    assert.deepEqual(
      (await explainedWith(ruleset({ rules: other }))).packets[0]?.path.filter(
        ({ isMaybe }) => isMaybe,
      ),
      [],
    );
  });

  it("compares networks by mask, and treats an unknown part of a packet as unknown", async () => {
    const mask: NftExpression = {
      ...{ kind: "mask", from: 16, register: 16 },
      ...{ mask: Uint8Array.from([255, 255, 0, 0]), xor: new Uint8Array(4) },
    };
    const inNet = await explainedWith(
      ruleset({ rules: { net: [source, mask, compare(192, 168, 0, 0), verdict("drop")] } }),
    );
    assert.equal(inNet.verdict, "dropped");
    const elsewhere = await explainedWith(
      ruleset({ rules: { net: [source, mask, compare(10, 0, 0, 0), verdict("drop")] } }),
    );
    assert.equal(elsewhere.verdict, "balanced");
    const sourcePort = load({ from: "transport", offset: 0, length: 2 });
    // A client's port is at least 32768.
    for (const [port, isDoubtful] of [
      [[4, 1], false],
      [[160, 1], true],
    ] as const) {
      const rules = { sport: [sourcePort, compare(...port), verdict("drop")] };
      const { verdict: decided, packets } = await explainedWith(ruleset({ rules }));
      assert.equal(decided, "balanced");
      assert.equal(
        packets[0]?.path.some(({ isMaybe }) => isMaybe),
        isDoubtful,
      );
    }
    const within = async (first: number, last: number) => {
      const ends = [Uint8Array.from([first, 0]), Uint8Array.from([last, 255])] as const;
      const range = { kind: "range", register: 16, isNegated: false } as const;
      const rule = [sourcePort, { ...range, first: ends[0], last: ends[1] }, verdict("drop")];
      const { verdict: decided, packets } = await explainedWith(ruleset({ rules: { rule } }));
      return packets[0]?.path.some(({ isMaybe }) => isMaybe) === true ? "may" : decided;
    };
    assert.equal(await within(4, 255), "dropped");
    assert.equal(await within(4, 127), "balanced");
    assert.equal(await within(160, 255), "may");
  });

  it("assumes that packets from other hosts do not arrive on the loopback link", async () => {
    const name = [load({ from: "meta", key: 6 }), compare(108, 111, ...new Array(14).fill(0))];
    const index = [load({ from: "meta", key: 4 }), compare(1, 0, 0, 0)];
    for (const isLoopback of [name, index]) {
      const rules = { "iif lo accept": [...isLoopback, verdict("accept")] };
      const nft = ruleset({ isDropPolicy: true, rules });
      const { packets } = await explainedWith(nft, "anybody");
      const elsewhere = packets.find(({ from }) => from === "elsewhere") ?? assert.fail();
      assert.deepEqual(elsewhere.losses, [
        { cause: "are dropped by inet fw input: policy drop", isCertain: true },
      ]);
    }
    const eth0 = [load({ from: "meta", key: 4 }), compare(2, 0, 0, 0), verdict("accept")];
    const nft = ruleset({ isDropPolicy: true, rules: { "iif eth0 accept": eth0 } });
    const [packet] = (await explainedWith(nft, "anybody")).packets.filter(
      ({ from }) => from === "elsewhere",
    );
    assert.equal(packet?.losses[0]?.isCertain, false);
  });

  it("treats replies as packets of established connections", async () => {
    // Conntrack states are bits: new is 8, established is 2.
    const state = (bit: number) => [
      load({ from: "ct", key: 0 }),
      compare(bit, 0, 0, 0),
      verdict("drop"),
    ];
    const forward = (rules: Given["rules"]) =>
      explainedWith(ruleset({ hook: "FORWARD", rules }), client, "iptables");
    assert.match(
      (await forward({ new: state(8) })).summary,
      /are dropped on their way .* by inet fw input: new$/,
    );
    assert.match(
      (await forward({ established: state(2) })).summary,
      /replies are dropped by inet fw input: established$/,
    );
    const passing = await explainedWith(ruleset({ hook: "FORWARD", rules: { new: state(8) } }));
    assert.match(passing.summary, balanced);
  });

  it("evaluates INPUT chains behind IPVS only if the endpoint is a process of this node", async () => {
    const drop = { drop: [verdict("drop")] };
    const at = (priority: number) => explainedWith(ruleset({ priority, rules: drop }));
    assert.deepEqual([(await at(98)).verdict, (await at(100)).verdict], ["dropped", "balanced"]);
    // The order of chains with the same priority as IPVS is unknown.
    const [beside] = (await at(99)).packets;
    assert.deepEqual(
      beside?.path.filter(({ isMaybe }) => isMaybe).map(({ rule }) => rule),
      ["drop"],
    );
    const host = endpointSlice({ endpoints: [endpoint("192.168.10.11", { nodeName: "node-1" })] });
    await withNode([service(), host], async (onNode) => {
      const none = [undefined, undefined, {}] as const;
      const nft = ruleset({ priority: 100, rules: drop });
      const { verdict: found } = await explained(onNode, client, web, [], ...none, nft);
      assert.equal(found, "dropped");
    });
  });

  it("follows third-party masquerading, and treats a translation as a possible match", async () => {
    const rules = { masquerade: [{ kind: "verdict", verdict: { kind: "masquerade" } }] } as const;
    const { packets } = await explainedWith(ruleset({ hook: "POSTROUTING", priority: 100, rules }));
    assert.equal(packets[0]?.deliveries[0]?.isMasqueraded, true);
    const dnat: NftExpression = { kind: "unknown", name: "nat", isEnd: true };
    const translated = ruleset({ hook: "PREROUTING", priority: -100, rules: { dnat: [dnat] } });
    const [packet] = (await explainedWith(translated)).packets;
    assert.deepEqual(
      packet?.path.filter(({ isMaybe }) => isMaybe).map(({ rule }) => rule),
      ["dnat"],
    );
  });

  it("evaluates ingress chains of the link through which packets arrive", async () => {
    const on = async (...devices: readonly string[]) => {
      const nft = ruleset({ hook: "INGRESS", rules: { drop: [verdict("drop")] } });
      return (
        await explainedWith({
          ...nft,
          baseChains: nft.baseChains.map((one) => ({ ...one, devices })),
        })
      ).verdict;
    };
    assert.deepEqual([await on("eth0"), await on("eth1")], ["dropped", "balanced"]);
  });

  it("evaluates egress chains of the link through which packets or their replies leave", async () => {
    const on = async (device: string, rule: readonly NftExpression[]) => {
      const nft = ruleset({ hook: "EGRESS", rules: { drop: [...rule, verdict("drop")] } });
      const baseChains = nft.baseChains.map((one) => ({ ...one, devices: [device] }));
      return (await explainedWith({ ...nft, baseChains })).summary;
    };
    const toEndpoint = [destinationPort, compare(8080 >> 8, 8080 & 255)];
    assert.match(await on("veth10.244.1.5", toEndpoint), /are dropped .* by inet fw input: drop$/);
    assert.match(await on("eth0", toEndpoint), balanced);
    // Answers leave with the address and port of the virtual server.
    const fromVip = [source, compare(10, 96, 0, 10)];
    assert.match(await on("eth0", fromVip), /replies are dropped by inet fw input: drop$/);
    assert.match(await on("eth0", [source, compare(10, 244, 1, 5)]), balanced);
  });

  describe("with an endpoint behind a bridge", () => {
    const behindBridge: typeof routeTo = async (address) => {
      const route = (await routeTo(address)) ?? assert.fail();
      return { ...route, isBridge: address === "10.244.1.5" };
    };
    const oifname = [load({ from: "meta", key: 7 }), compare(...Buffer.from("veth7"))];
    const outcome = async (
      chain: object,
      {
        matches = [],
        find = behindBridge,
        hook = "EGRESS",
        isBridgeFiltered = "0",
      }: {
        readonly matches?: readonly NftExpression[];
        readonly find?: typeof routeTo;
        readonly hook?: NftHook;
        readonly isBridgeFiltered?: "0" | "1";
      } = {},
    ) => {
      const nft = ruleset({ hook, rules: { drop: [...matches, verdict("drop")] } });
      const baseChains = nft.baseChains.map((one) => ({ ...one, ...chain }));
      const explanation = await explainedWith(
        ...([{ ...nft, baseChains }, client, "ipvs", web, find, isBridgeFiltered] as const),
      );
      const [{ deliveries, losses } = assert.fail()] = explanation.packets;
      const isMaybe = deliveries.some(({ path }) => path.some((step) => step.isMaybe === true));
      return isMaybe ? "may" : explanation.verdict === "dropped" ? "dropped" : losses;
    };

    it("evaluates chains of the bridge, but not the unknown port", async () => {
      assert.equal(await outcome({ isBridge: true }), "dropped");
      assert.equal(await outcome({ isBridge: true }, { matches: oifname }), "may");
      assert.deepEqual(await outcome({ isBridge: true }, { find: routeTo }), []);
      // Answers from the endpoint enter the bridge.
      assert.equal(await outcome({ isBridge: true }, { hook: "INGRESS" }), "dropped");
      assert.deepEqual(await outcome({ isBridge: true }, { hook: "FORWARD" }), []);
    });

    it("does not rely on chains of the bridge if br_netfilter is on", async () => {
      const filtered = { isBridgeFiltered: "1" } as const;
      assert.equal(await outcome({ isBridge: true }, filtered), "may");
      assert.equal(await outcome({ isBridge: true }, { ...filtered, hook: "INGRESS" }), "may");
    });

    it("treats chains at the bridge's ports as possible matches", async () => {
      assert.equal(await outcome({ devices: ["veth7"] }), "may");
      assert.deepEqual(await outcome({ devices: ["veth8"] }), []);
      assert.deepEqual(await outcome({ devices: ["veth7"] }, { find: routeTo }), []);
    });
  });

  it("does not know whether a table or a chain of the same priority stops a packet first", async () => {
    const outcome = async (priority: number, kind: "drop" | "reject") => {
      const nft = ruleset({ priority, rules: { rule: [...port80, verdict(kind)] } });
      let found = "";
      await withNode(objects, async (onNode) => {
        const filter = onNode.kernel.iptables.table("IPv4", "filter");
        filter.remove("INPUT", /KUBE-/);
        filter.append("INPUT", "-p tcp -m tcp --dport 80 -j DROP");
        const none = [undefined, undefined, {}] as const;
        const explanation = await explained(onNode, client, web, [], ...none, nft);
        const isMaybe = explanation.packets[0]?.path.some((step) => step.isMaybe === true);
        found = `${explanation.verdict}${isMaybe === true ? ", may" : ""}`;
      });
      return found;
    };
    assert.equal(await outcome(0, "reject"), "dropped, may");
    assert.equal(await outcome(0, "drop"), "dropped");
    assert.equal(await outcome(1, "reject"), "dropped");
    assert.equal(await outcome(-1, "reject"), "refused");
  });

  it("treats packets before connection tracking as invalid", async () => {
    const verdictAt = async (hook: NftHook, priority: number, from: From = client) => {
      const invalid = [load({ from: "ct", key: 0 }), compare(1, 0, 0, 0), verdict("drop")];
      return (await explainedWith(ruleset({ hook, priority, rules: { invalid } }), from)).verdict;
    };
    assert.equal(await verdictAt("PREROUTING", -300), "dropped");
    assert.equal(await verdictAt("PREROUTING", -200), "balanced");
    assert.equal(await verdictAt("OUTPUT", -300, "node"), "dropped");
    // IPVS sends the client's packets.
    assert.equal(await verdictAt("OUTPUT", -300), "balanced");
  });

  it("follows replies out of this node, including those of a local process", async () => {
    const summaryWith = async (
      hook: NftHook,
      mode: string,
      address: string,
      from: string,
      asker: From = client,
    ) => {
      const drop = [source, compare(...ipAddressToBytes(ip(from))), verdict("drop")];
      const answering = [load({ from: "ct", key: 1 }), compare(1), ...drop];
      const nft = ruleset({ hook, rules: { drop: answering } });
      const slice = endpointSlice({ endpoints: [endpoint(address, { nodeName: "node-1" })] });
      let summary = "";
      await withNode(
        [service(), slice],
        async (onNode) => {
          onNode.kernel.sysctl.values.set("net/ipv4/ip_forward", "1");
          const none = [undefined, undefined, {}] as const;
          ({ summary } = await explained(onNode, asker, web, [], ...none, nft));
        },
        { "proxy-mode": mode },
      );
      return summary;
    };
    const isLost = /replies are dropped by inet fw input: drop$/;
    const [vip, pod, host] = ["10.96.0.10", "10.244.1.5", "192.168.10.11"] as const;
    // IPVS translates the source before these hooks, and nat after them.
    for (const [hook, address] of [
      ["POSTROUTING", pod],
      ["OUTPUT", host],
    ] as const) {
      assert.match(await summaryWith(hook, "ipvs", address, vip), isLost, hook);
      assert.match(await summaryWith(hook, "ipvs", address, address), balanced, hook);
      assert.match(await summaryWith(hook, "iptables", address, address), isLost, hook);
      assert.match(await summaryWith(hook, "iptables", address, vip), balanced, hook);
    }
    for (const hook of ["OUTPUT", "INPUT"] as const)
      assert.match(await summaryWith(hook, "ipvs", host, vip, "node"), isLost, hook);
  });

  it("evaluates whether there is a route back to the source", async () => {
    const missing = (flags: number) => {
      const fib = load({ from: "fib", result: 1, flags });
      return { "fib saddr . iif oif missing drop": [fib, compare(0), verdict("drop")] };
    };
    const withRouteThrough = async (inLink: string, flags: number) => {
      const nft = ruleset({ hook: "PREROUTING", rules: missing(flags) });
      const route: typeof routeTo = async (address) => {
        const found = (await routeTo(address)) ?? assert.fail();
        return address === client ? { ...found, link: inLink } : found;
      };
      let verdictOf = "";
      await withNode(objects, async (onNode) => {
        const options = { inLink: "eth0" };
        onNode.kernel.sysctl.values.set("net/ipv4/conf/eth0/rp_filter", "0");
        const asked = [onNode, client, web, [], undefined, route, options, nft] as const;
        const { verdict: decided, packets } = await explained(...asked);
        const isMaybe = packets[0]?.path.some((step) => step.isMaybe === true);
        verdictOf = isMaybe === true ? "may" : decided;
      });
      return verdictOf;
    };
    const [present, through] = [33, 41];
    assert.equal(await withRouteThrough("eth0", through), "balanced");
    assert.equal(await withRouteThrough("eth1", through), "dropped");
    assert.equal(await withRouteThrough("eth1", present), "balanced");
    assert.equal(await withRouteThrough("eth0", 9), "may");
    // Packets from this node to itself come in through the loopback link.
    const own = { ...web, address: ip("192.168.10.11") };
    const toItself = await explainedWith(
      ruleset({ hook: "PREROUTING", rules: missing(through) }),
      ...(["node", "ipvs", own] as const),
    );
    assert.ok(toItself.packets[0]?.path.every(({ isMaybe }) => isMaybe !== true));
  });

  it("reports the same from an archive", () => {
    const nft = ruleset({ rules: { drop: port80 }, sets: { ports: ports([80, false]) } });
    const node = { facts: { kind: "PlanFacts" }, states: new Map([["IPv4", { nft }]]) };
    const recorded = node as unknown as RecordedNode;
    assert.deepEqual(readRecorded(recordedText(recorded)), recorded);
  });

  it("does not apply NAT chains to replies", async () => {
    const answers = [load({ from: "ct", key: 1 }), compare(1), verdict("drop")];
    const nft = ruleset({ hook: "PREROUTING", rules: { drop: answers } });
    const baseChains = nft.baseChains.map((one) => ({ ...one, isNat: true }));
    assert.match((await explainedWith({ ...nft, baseChains })).summary, balanced);
    assert.match((await explainedWith(nft)).summary, /replies are dropped/);
  });

  it("follows the replies to routed packets", async () => {
    const host = { protocol: "TCP", address: ip("192.168.99.1"), port: 22 } as const;
    const summaryWith = async (state: number) => {
      const rule = [load({ from: "ct", key: 0 }), compare(state, 0, 0, 0), verdict("drop")];
      const nft = ruleset({ hook: "FORWARD", rules: { drop: rule } });
      return (await explainedWith(nft, client, "ipvs", host)).summary;
    };
    assert.match(await summaryWith(8), /are dropped by inet fw input: drop$/);
    assert.match(
      await summaryWith(2),
      /are dropped on the way back: replies are dropped by inet fw input: drop$/,
    );
    assert.match(await summaryWith(4), /are routed on through eth0/);
  });

  it("treats the rest of a register as unknown after an unknown value", async () => {
    const other = [
      load({ from: "meta", key: 7 }),
      { ...load({ from: "meta", key: 99 }) },
      compare(...Buffer.from("br0"), ...new Array(13).fill(0)),
    ];
    const rules = { "ibrname br0 drop": [...other, verdict("drop")] };
    // For example the hardware address of the sender.
    const payload: NftExpression = { kind: "unknown", name: "payload", isEnd: false };
    const hardware = [source, compare(192, 168, 10, 1), payload, compare(2, 0, 0, 0, 0, 1)];
    for (const given of [rules, { "ether saddr drop": [...hardware, verdict("drop")] }]) {
      const { packets } = await explainedWith(ruleset({ rules: given }));
      assert.equal(
        packets[0]?.path.some(({ isMaybe }) => isMaybe),
        true,
      );
    }
  });
});
