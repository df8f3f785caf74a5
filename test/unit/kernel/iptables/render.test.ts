import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { IpFamily } from "../../../../src/base/ip.ts";
import { RuleValueError } from "../../../../src/kernel/iptables/names.ts";
import { parseRule } from "../../../../src/kernel/iptables/parse-rule.ts";
import { renderRule } from "../../../../src/kernel/iptables/render.ts";
import type { Match, Rule, Target } from "../../../../src/state/rule.ts";
import fc from "../../../support/fast-check.ts";

const accept: Target = { kind: "accept" };

function matching(...matches: readonly Match[]): Rule {
  return { matches, target: accept };
}

function targeting(target: Target): Rule {
  return { matches: [], target };
}

/** Texts recorded from `iptables-save` 1.8.9. */
const forms: readonly [name: string, family: IpFamily, rule: Rule, text: string][] = [
  ["no match", "IPv4", targeting({ kind: "drop" }), "-j DROP"],
  ["return", "IPv4", targeting({ kind: "return" }), "-j RETURN"],
  ["a jump", "IPv4", targeting({ kind: "jump", chain: "KUBE-MARK-MASQ" }), "-j KUBE-MARK-MASQ"],
  [
    "reject",
    "IPv4",
    targeting({ kind: "reject" }),
    "-j REJECT --reject-with icmp-port-unreachable",
  ],
  [
    "reject over IPv6",
    "IPv6",
    targeting({ kind: "reject" }),
    "-j REJECT --reject-with icmp6-port-unreachable",
  ],
  [
    "setting a mark",
    "IPv4",
    targeting({ kind: "xmark", value: 0x4000, mask: 0x4000 }),
    "-j MARK --set-xmark 0x4000/0x4000",
  ],
  [
    "clearing a mark",
    "IPv4",
    targeting({ kind: "xmark", value: 0x4000, mask: 0 }),
    "-j MARK --set-xmark 0x4000/0x0",
  ],
  ["masquerade", "IPv4", targeting({ kind: "masquerade", isRandomFully: false }), "-j MASQUERADE"],
  [
    "masquerade with random ports",
    "IPv4",
    targeting({ kind: "masquerade", isRandomFully: true }),
    "-j MASQUERADE --random-fully",
  ],
  [
    "an echo request",
    "IPv4",
    matching({ kind: "echo-request" }),
    "-p icmp -m icmp --icmp-type 8 -j ACCEPT",
  ],
  [
    "an echo request over IPv6",
    "IPv6",
    matching({ kind: "echo-request" }),
    "-p ipv6-icmp -m icmp6 --icmpv6-type 128 -j ACCEPT",
  ],
  [
    "a source",
    "IPv4",
    matching({ kind: "source", cidr: "127.0.0.0/8", isNegated: false }),
    "-s 127.0.0.0/8 -j ACCEPT",
  ],
  [
    "any other source",
    "IPv6",
    matching({ kind: "source", cidr: "fd00:244::/32", isNegated: true }),
    "! -s fd00:244::/32 -j ACCEPT",
  ],
  [
    "a source with host bits",
    "IPv4",
    matching({ kind: "source", cidr: "10.1.2.3/8", isNegated: false }),
    "-s 10.0.0.0/8 -j ACCEPT",
  ],
  [
    "all sources",
    "IPv4",
    matching({ kind: "source", cidr: "0.0.0.0/0", isNegated: false }),
    "-j ACCEPT",
  ],
  [
    "an interface",
    "IPv4",
    matching({ kind: "in-interface", name: "veth+", isNegated: true }),
    "! -i veth+ -j ACCEPT",
  ],
  ["a protocol", "IPv4", matching({ kind: "protocol", protocol: "sctp" }), "-p sctp -j ACCEPT"],
  [
    "a comment with several words",
    "IPv4",
    matching({ kind: "comment", text: "kubernetes service portals" }),
    '-m comment --comment "kubernetes service portals" -j ACCEPT',
  ],
  [
    "a comment with one word",
    "IPv4",
    matching({ kind: "comment", text: "kube-proxy_1" }),
    "-m comment --comment kube-proxy_1 -j ACCEPT",
  ],
  [
    "an empty comment",
    "IPv4",
    matching({ kind: "comment", text: "" }),
    '-m comment --comment "" -j ACCEPT',
  ],
  [
    "a comment with quotes",
    "IPv4",
    matching({ kind: "comment", text: `type 'hash ip:port' "x" \\` }),
    `-m comment --comment "type \\'hash ip:port\\' \\"x\\" \\\\" -j ACCEPT`,
  ],
  [
    "a mark",
    "IPv4",
    matching({ kind: "mark", value: 0x4000, mask: 0x4000, isNegated: true }),
    "-m mark ! --mark 0x4000/0x4000 -j ACCEPT",
  ],
  [
    "a whole mark",
    "IPv4",
    matching({ kind: "mark", value: 1, mask: 0xffffffff, isNegated: false }),
    "-m mark --mark 0x1 -j ACCEPT",
  ],
  [
    "a set",
    "IPv4",
    matching({ kind: "set", name: "KUBE-LOOP-BACK", directions: ["dst", "dst", "src"] }),
    "-m set --match-set KUBE-LOOP-BACK dst,dst,src -j ACCEPT",
  ],
  [
    "connection states in iptables' order",
    "IPv4",
    matching({ kind: "conntrack-state", states: ["ESTABLISHED", "RELATED"] }),
    "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
  ],
  [
    "an address type",
    "IPv4",
    matching({ kind: "address-type", end: "src", type: "LOCAL", isNegated: true }),
    "-m addrtype ! --src-type LOCAL -j ACCEPT",
  ],
  [
    "a bridge port",
    "IPv4",
    matching({ kind: "physical-in", isNegated: true }),
    "-m physdev ! --physdev-is-in -j ACCEPT",
  ],
  [
    "a virtual server",
    "IPv6",
    matching({ kind: "ipvs", protocolNumber: 6, address: "2001:db8:1::5", port: 80 }),
    "-m ipvs --vproto 6 --vaddr 2001:db8:1::5 --vport 80 -j ACCEPT",
  ],
];

const refused: readonly [name: string, rule: Rule][] = [
  ["a chain that is too long", targeting({ kind: "jump", chain: "X".repeat(29) })],
  ["a chain that is an option", targeting({ kind: "jump", chain: "-j" })],
  ["a chain with a blank", targeting({ kind: "jump", chain: "A B" })],
  ["an empty chain", targeting({ kind: "jump", chain: "" })],
  ["a set that is too long", matching({ kind: "set", name: "X".repeat(32), directions: ["dst"] })],
  ["a set with a line break", matching({ kind: "set", name: "A\nB", directions: ["dst"] })],
  ["a set without directions", matching({ kind: "set", name: "A", directions: [] })],
  ["a set with an unknown direction", matching(inSet("other" as "src"))],
  ["a set with seven directions", matching(inSet(...new Array<"src">(7).fill("src")))],
  ["an interface that is too long", matching(inInterface("x".repeat(16)))],
  ["an interface with a blank", matching(inInterface("eth0 -j"))],
  ["an interface that negates", matching(inInterface("!"))],
  ["a comment that is too long", matching({ kind: "comment", text: "x".repeat(256) })],
  ["a comment with a line break", matching({ kind: "comment", text: "x\nCOMMIT" })],
  ["a comment with a NUL", matching({ kind: "comment", text: "x\0" })],
  ["a comment beyond ASCII", matching({ kind: "comment", text: "Ünder" })],
  ["a source of the other family", matching(source("fd00::/8"))],
  ["an invalid source", matching(source("10.0.0.0/8 -j ACCEPT"))],
  [
    "a virtual server of the other family",
    matching({ kind: "ipvs", protocolNumber: 6, address: "fd00::1", port: 80 }),
  ],
  [
    "a virtual server without a port",
    matching({ kind: "ipvs", protocolNumber: 6, address: "10.0.0.1", port: 65_536 }),
  ],
  ["an unknown state", matching({ kind: "conntrack-state", states: ["NEW,ESTABLISHED"] })],
  [
    "an address type in lower case",
    matching({ kind: "address-type", end: "dst", type: "local -j DROP", isNegated: false }),
  ],
  ["a mark above 32 bits", targeting({ kind: "xmark", value: 2 ** 32, mask: 0 })],
  ["a negative mark", targeting({ kind: "xmark", value: -1, mask: 0 })],
];

function inSet(...directions: readonly ("src" | "dst")[]): Match {
  return { kind: "set", name: "A", directions };
}

function inInterface(name: string): Match {
  return { kind: "in-interface", name, isNegated: false };
}

function source(cidr: string): Match {
  return { kind: "source", cidr, isNegated: false };
}

describe("rules as text", () => {
  for (const [name, family, rule, text] of forms) {
    it(`writes ${name}`, () => assert.equal(renderRule(family, rule), text));
  }

  for (const [name, rule] of refused) {
    it(`rejects ${name}`, () => {
      assert.throws(() => renderRule("IPv4", rule), RuleValueError);
    });
  }

  it("accepts names and comments of the maximum length", () => {
    renderRule("IPv4", targeting({ kind: "jump", chain: "X".repeat(28) }));
    renderRule("IPv4", matching({ kind: "set", name: "X".repeat(31), directions: ["dst"] }));
    renderRule("IPv4", matching(inInterface(`${"x".repeat(14)}+`)));
    renderRule("IPv4", matching({ kind: "comment", text: "x".repeat(255) }));
  });

  it("yields one line with the same comment for any printable comment, or rejects it", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 60 }), (text) => {
        const rule = matching({ kind: "comment", text });
        let line: string;
        try {
          line = renderRule("IPv4", rule);
        } catch (error) {
          assert.ok(error instanceof RuleValueError);
          assert.doesNotMatch(text, /^[\x20-\x7e]*$/);
          return;
        }
        assert.doesNotMatch(line, /\n/);
        assert.deepEqual(parseRule(line), rule);
      }),
      { numRuns: 2000 },
    );
  });
});
