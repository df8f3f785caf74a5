import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { planEverything } from "../../../../src/reconcile/iptables/plan-writes.ts";
import type { Chain, Rule } from "../../../../src/state/rule.ts";

const rules: readonly Rule[] = ["accept", "drop"].map((kind) => ({
  matches: [],
  target: { kind: kind as "accept" },
}));
const render = ({ target }: Rule): string => `-j ${target.kind}`;
const chains = Array.from({ length: 1_000 }, (_, index): Chain => {
  return { table: "nat", name: `KUBE-SVC-${index}`, rules };
});
const observed = [...chains.keys()].map((index) => ({
  table: "nat" as const,
  name: `KUBE-SVC-${index}`,
  // Every other chain differs.
  rules: rules.map((rule) => ({ text: index % 2 === 0 ? render(rule) : "-j RETURN" })),
}));

describe("a comparison of all chains", () => {
  it("compares one chain per step", () => {
    let rendered = 0;
    let mostInStep = 0;
    const wanted = { chains, jumps: [] };
    const steps = planEverything("IPv4", wanted, observed, (rule) => {
      rendered += 1;
      return render(rule);
    });
    for (let step = steps.next(); ; step = steps.next()) {
      mostInStep = Math.max(mostInStep, rendered);
      rendered = 0;
      if (step.done !== true) continue;
      // The other one is KUBE-FIREWALL.
      assert.equal(step.value.changes.length, 501);
      break;
    }
    assert.equal(mostInStep, rules.length);
  });
});
