import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseRule } from "../../../src/kernel/iptables/parse-rule.ts";
import type { Rule } from "../../../src/state/rule.ts";
import { chainsAbout, chainsAboutInSteps, isAbout } from "../../../src/state/rules-about.ts";
import { ip } from "../../support/records.ts";

const web = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 };
const ruleOf = (text: string): Rule => parseRule(text) ?? assert.fail(text);

describe("rules about a destination", () => {
  for (const [text, isSo] of [
    ["-d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A", true],
    ["-d 10.96.0.10/32 -p tcp -m tcp --dport 81 -j KUBE-SVC-A", false],
    ["-d 10.96.0.10/32 -p udp -m udp --dport 80 -j KUBE-SVC-A", false],
    ["-d 10.96.0.11/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A", false],
    ["! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS", true],
    ["! -d 10.96.0.0/16 -j DROP", false],
    ["-s 10.244.0.0/16 -j ACCEPT", true],
    ["-p tcp -m tcp -j DNAT --to-destination 10.244.1.5:8080", true],
  ] as const) {
    it(`${isSo ? "keep" : "omit"} ${text}`, () => {
      assert.equal(isAbout(ruleOf(text), [web]), isSo);
    });
  }

  it("keep an IPv6 network whose prefix has 32 bits", () => {
    const rule = ruleOf("-d fd00:96::/32 -j DROP");
    assert.equal(isAbout(rule, [{ ...web, address: ip("fd00:96::10") }]), true);
    assert.equal(isAbout(rule, [{ ...web, address: ip("fd00:97::10") }]), false);
  });

  it("yield after each rule, so that thousands of Services do not delay the daemon", () => {
    const rules = Array.from({ length: 1_000 }, (_, index) => ({
      rule: ruleOf(`-d 10.96.${index >> 8}.${index & 255}/32 -j DROP`),
    }));
    const search = chainsAboutInSteps([web], (key) =>
      key === "nat PREROUTING" ? rules : undefined,
    );
    let yields = 0;
    while (search.next().done !== true) yields += 1;
    assert.equal(yields, 1_000);
  });

  it("are in chains that packets reach, and include all rules of built-in chains", () => {
    const chains: Readonly<Record<string, readonly string[]>> = {
      "nat PREROUTING": ["-d 10.96.0.99/32 -j ACCEPT", "-j KUBE-SERVICES"],
      "nat KUBE-SERVICES": [
        "-d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A",
        "-d 10.96.0.11/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-B",
      ],
      "nat KUBE-SVC-A": ["-j KUBE-SERVICES"],
      "nat KUBE-SVC-B": ["-j KUBE-SERVICES"],
      "nat KUBE-LEFT": ["-j RETURN"],
    };
    const about = chainsAbout([web], (key) =>
      chains[key]?.map((text) => ({ text, rule: ruleOf(text) })),
    );
    assert.deepEqual(
      [...about].map(([key, rules]) => [key, rules.length]),
      [
        ["nat PREROUTING", 2],
        ["nat KUBE-SERVICES", 1],
        ["nat KUBE-SVC-A", 1],
      ],
    );
  });

  it("are kept if they cannot be parsed", () => {
    const about = chainsAbout([web], (key) => (key === "nat OUTPUT" ? [{}] : undefined));
    assert.deepEqual([...about.values()], [[{}]]);
  });
});
