import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ipFamilies } from "../../../../src/base/ip.ts";
import { parseRule } from "../../../../src/kernel/iptables/parse-rule.ts";
import { renderRule } from "../../../../src/kernel/iptables/render.ts";
import type { LocalDetector } from "../../../../src/plan/options.ts";
import { planRules } from "../../../../src/plan/rules.ts";
import { setRoles } from "../../../../src/plan/sets.ts";
import type { Rule } from "../../../../src/state/rule.ts";
import { listScenarios, readScenario } from "../../../golden-iptables/recorded.ts";
import { ip } from "../../../support/records.ts";

const savedFiles = [
  ["IPv4", "iptables"],
  ["IPv6", "ip6tables"],
] as const;

/** A rule's text does not contain the types of its sets. */
function withoutTypes({ matches, target }: Rule): Rule {
  return {
    matches: matches.map((match) => {
      if (match.kind !== "set") return match;
      const { type: _, ...rest } = match;
      return rest;
    }),
    target,
  };
}

describe("a parsed rule", () => {
  for (const family of ipFamilies) {
    const cidr = family === "IPv4" ? "10.244.0.0/16" : "fd00:244::/32";
    const detectors: readonly (LocalDetector | undefined)[] = [
      undefined,
      { kind: "source", cidr },
      { kind: "in-interface", name: "cni+" },
    ];
    it(`equals the rule that was written, for every planned rule, ${family}`, () => {
      const address = ip(family === "IPv4" ? "203.0.113.10" : "2001:db8::10");
      for (const [index, localDetector] of detectors.entries()) {
        const strictSourceRanges = index > 0;
        const { chains, jumps } = planRules({
          ...{ family, localDetector, masqueradeAll: false, masqueradeMark: 0x4000 },
          filledSets: new Set(setRoles),
          deniedToNode: [{ protocol: "TCP", address, port: 443 }],
          edges: { answerPing: true, masqueradeNodeToLocal: true, strictSourceRanges },
        });
        const rules = [...chains.flatMap((chain) => chain.rules), ...jumps.map(({ rule }) => rule)];
        for (const rule of rules) {
          assert.deepEqual(parseRule(renderRule(family, rule)), withoutTypes(rule));
        }
      }
    });
  }

  it("equals the rule that kube-proxy's iptables mode wrote, for every recorded rule", () => {
    const texts = listScenarios().flatMap((name) =>
      readScenario(name).steps.flatMap(({ recorded }) =>
        savedFiles.flatMap(([family, file]) =>
          (recorded[file] ?? "")
            .split("\n")
            .flatMap((line) => /^-A KUBE-\S+ (.+)$/.exec(line)?.[1] ?? [])
            .map((text) => ({ family, text })),
        ),
      ),
    );
    assert.ok(texts.length > 1_000, `${texts.length} rules`);
    for (const { family, text } of texts) {
      const rule = parseRule(text);
      assert.ok(rule !== undefined, text);
      assert.equal(renderRule(family, rule), text);
    }
  });

  it("can be a third-party rule with the same matches", () => {
    assert.deepEqual(parseRule("-d 192.168.10.11/32 ! -i eth0 -p tcp -m tcp --dport 22 -j DROP"), {
      matches: [
        { kind: "destination", cidr: "192.168.10.11/32", isNegated: false },
        { kind: "in-interface", name: "eth0", isNegated: true },
        { kind: "protocol", protocol: "tcp" },
        { kind: "port", protocol: "tcp", destination: 22 },
      ],
      target: { kind: "drop" },
    });
  });

  for (const text of [
    "-p tcp -m tcp ! --dport 22:80 -j ACCEPT",
    "-m set ! --match-set KUBE-CLUSTER-IP dst -j ACCEPT",
    "-m set --match-set KUBE-CLUSTER-IP dst,other -j ACCEPT",
    "-m mark --mark 4000 -j ACCEPT",
    "-m limit --limit 1/sec -j LOG",
    "-j MASQUERADE-ALL now",
    "-d 10.0.0.1/32 -j DNAT --to-destination 10.0.0.2",
    "-d 10.0.0.1/32 -p tcp -j DNAT --to-destination 10.0.0.2:80-90",
    "-p tcp -m tcp -j DNAT --to-destination 10.0.0.2:80 --persistent",
    "-p tcp -j REDIRECT --to-ports 80-90",
    "-p tcp -j REDIRECT",
    "-p tcp -m tcp --sport 53 -j ACCEPT",
    "-m statistic --mode nth --every 2 --packet 0 -j ACCEPT",
    "-m statistic --mode nth --probability 0.5 -j ACCEPT",
    "-m recent --update --seconds 60 --name DEFAULT --mask 255.255.255.255 --rsource -j DROP",
    "-m recent --rcheck --seconds 60 --hitcount 4 --name L --mask 255.255.255.255 --rsource -j DROP",
    '-m comment --comment "open',
    "",
  ]) {
    it(`is a third-party rule: ${JSON.stringify(text)}`, () => {
      assert.equal(parseRule(text), undefined);
    });
  }
});
