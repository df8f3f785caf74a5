import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ipFamilies } from "../../../../src/base/ip.ts";
import { renderRule } from "../../../../src/kernel/iptables/render.ts";
import { encodeRule } from "../../../../src/kernel/nftables/encode-rule.ts";
import type { Attributes, Expression } from "../../../../src/kernel/nftables/expressions.ts";
import { decodeRuleText, encodeRuleText } from "../../../../src/kernel/nftables/rule-user-data.ts";
import { planRules } from "../../../../src/plan/rules.ts";
import { setRoles } from "../../../../src/plan/sets.ts";
import type { Match, Rule } from "../../../../src/state/rule.ts";

/** For example `cmp(1:8 2:0 3:(1:0a))`; bytes in hex. */
function textOf({ name, data }: Expression): string {
  return `${name}(${attributesText(data)})`;
}

function attributesText(attributes: Attributes): string {
  return attributes
    .map(([type, value]) => {
      if (value instanceof Uint8Array) return `${type}:${Buffer.from(value).toString("hex")}`;
      return `${type}:${Array.isArray(value) ? `(${attributesText(value)})` : value}`;
    })
    .join(" ");
}

function encoded(family: "IPv4" | "IPv6", rule: Partial<Rule>): string {
  const whole = { matches: [], target: { kind: "none" as const }, ...rule };
  return encodeRule(family, "nat", whole).map(textOf).join(" ");
}

/** The second column is the output of `nft --debug=netlink` 1.0.6 for the same rule. */
describe("nf_tables expressions", () => {
  const set = (directions: readonly ("src" | "dst")[], type?: "bitmap:port"): Match => {
    return { kind: "set", name: "S", directions, ...(type === undefined ? {} : { type }) };
  };
  const cases: readonly (readonly [string, "IPv4" | "IPv6", Partial<Rule>, string])[] = [
    [
      "compares the network part of an address",
      "IPv4",
      { matches: [{ kind: "source", cidr: "10.244.0.0/17", isNegated: true }] },
      "payload(1:8 2:1 3:12 4:4) bitwise(1:8 2:8 3:4 4:(1:ffff8000) 5:(1:00000000)) cmp(1:8 2:1 3:(1:0af40000))",
    ],
    [
      "compares a whole address without a mask",
      "IPv6",
      { matches: [{ kind: "destination", cidr: "2001:db8::1/128", isNegated: false }] },
      "payload(1:8 2:1 3:24 4:16) cmp(1:8 2:0 3:(1:20010db8000000000000000000000001))",
    ],
    [
      "looks up address, protocol, port and second address in consecutive registers",
      "IPv4",
      { matches: [set(["dst", "dst", "src"])] },
      "payload(1:8 2:1 3:16 4:4) meta(1:9 2:16) payload(1:10 2:2 3:2 4:2) payload(1:11 2:1 3:12 4:4) lookup(1:S 2:8)",
    ],
    [
      "uses four registers for an IPv6 address",
      "IPv6",
      { matches: [set(["dst", "dst", "src"])] },
      "payload(1:8 2:1 3:24 4:16) meta(1:12 2:16) payload(1:13 2:2 3:2 4:2) payload(1:14 2:1 3:8 4:16) lookup(1:S 2:8)",
    ],
    [
      "looks up an address",
      "IPv4",
      { matches: [set(["dst"])] },
      "payload(1:8 2:1 3:16 4:4) lookup(1:S 2:8)",
    ],
    [
      "looks up a port of the rule's protocol",
      "IPv4",
      { matches: [{ kind: "protocol", protocol: "udp" }, set(["dst"], "bitmap:port")] },
      "meta(1:8 2:16) cmp(1:8 2:0 3:(1:11)) payload(1:8 2:2 3:2 4:2) lookup(1:S 2:8)",
    ],
    [
      "looks up a TCP port if the rule has no protocol",
      "IPv4",
      { matches: [set(["dst"], "bitmap:port")] },
      "meta(1:8 2:16) cmp(1:8 2:0 3:(1:06)) payload(1:8 2:2 3:2 4:2) lookup(1:S 2:8)",
    ],
    [
      "finds the virtual address of a translated packet in its conntrack entry",
      "IPv4",
      {
        matches: [{ kind: "ipvs", protocolNumber: 6, address: "203.0.113.9", port: 443 }],
      },
      "ct(1:8 2:1) cmp(1:8 2:0 3:(1:00)) ct(1:8 2:20 3:00) cmp(1:8 2:0 3:(1:cb007109)) meta(1:8 2:16) cmp(1:8 2:0 3:(1:06)) ct(1:8 2:12 3:00) cmp(1:8 2:0 3:(1:01bb))",
    ],
    [
      "matches the prefix of an interface name",
      "IPv4",
      { matches: [{ kind: "in-interface", name: "veth+", isNegated: false }] },
      "meta(1:8 2:6) cmp(1:8 2:0 3:(1:76657468))",
    ],
    [
      "rejects with port unreachable of IPv6",
      "IPv6",
      { target: { kind: "reject" } },
      "counter() reject(1:0 2:04)",
    ],
    [
      "jumps to the chain of the same iptables table",
      "IPv4",
      { target: { kind: "jump", chain: "KUBE-A" } },
      "immediate(1:0 2:(2:(1:4294967293 2:nat-KUBE-A)))",
    ],
  ];
  for (const [what, family, rule, expected] of cases) {
    it(`${what}, ${family}`, () => assert.equal(encoded(family, rule), expected));
  }

  it("rejects matches and targets that only other modes use", () => {
    const recent: Match = { kind: "recent-set", list: "KUBE-SEP-A" };
    assert.throws(() => encoded("IPv4", { matches: [recent] }), /IPVS mode/);
    assert.throws(() => encoded("IPv4", { target: { kind: "redirect", port: 1 } }), /IPVS mode/);
  });
});

describe("the canonical text in a rule's user data", () => {
  for (const family of ipFamilies) {
    it(`is read as written for every planned rule, ${family}`, () => {
      const { chains, jumps } = planRules({
        ...{ family, filledSets: new Set(setRoles), deniedToNode: [] },
        localDetector: { kind: "in-interface", name: "a-long-bridge-0" },
        ...{ masqueradeAll: false, masqueradeMark: 0x4000 },
      });
      const rules = [...chains.flatMap((chain) => chain.rules), ...jumps.map((jump) => jump.rule)];
      for (const rule of rules) {
        const bytes = encodeRuleText(family, rule);
        assert.ok(bytes.length <= 256);
        assert.equal(decodeRuleText(family, bytes), renderRule(family, rule));
      }
    });
  }

  it("does not exist in a rule with only a comment, as nft writes it", () => {
    assert.equal(decodeRuleText("IPv4", Uint8Array.of(0, 2, 0x61, 0)), undefined);
    assert.equal(decodeRuleText("IPv4", Uint8Array.of(0, 200, 0x61)), undefined);
  });

  it("must not exceed the kernel's limit", () => {
    const rule: Rule = {
      matches: [{ kind: "comment", text: "x".repeat(250) }],
      target: { kind: "accept" },
    };
    assert.throws(() => encodeRuleText("IPv4", rule), /at most 256 bytes/);
  });
});
