/** Which chains of mode iptables are to be written: all that differ, or those that planning touched. Pure. */
import type { IpFamily } from "../../base/ip.ts";
import type { ObservedChain } from "../../kernel/kernel.ts";
import type { TouchedChain } from "../../plan/iptables/desired-tables.ts";
import { kubeletFirewall } from "../../plan/iptables/fixed-chains.ts";
import { chainKey, type RuleSet } from "../../state/rule.ts";
import { diffRules, type PlannedRuleChange } from "../kinds/diff-rules.ts";
import { cachedRulesOf, type RenderRule } from "../kinds/rule-texts.ts";
import type { CachedTables } from "./cached-tables.ts";

/** Chains that belong to a service port; only this mode makes them. XLB was EXT before 1.24. */
const ownChain = /^KUBE-(?:SVC|SVL|EXT|FW|SEP|XLB)-[A-Z2-7]{16}$/;

/**
 * From what stands in the tables to what should: every chain that differs, jumps that are missing or out of order, and
 * the end of chains of Services that are gone. What is right is not written again.
 */
export function planEverything(
  family: IpFamily,
  wanted: RuleSet,
  observed: readonly ObservedChain[],
  render: RenderRule,
): readonly PlannedRuleChange[] {
  const inForm: RenderRule = (rule) => spaced(render(rule));
  const cached = cachedRulesOf(observed.map(inOneForm), wanted, inForm);
  const differences = diffRules({ family, planned: wanted, cached, render: inForm });
  const present = new Set(wanted.chains.map(({ table, name }) => chainKey(table, name)));
  const gone = observed.filter(
    ({ table, name }) => table === "nat" && ownChain.test(name) && !present.has(`nat ${name}`),
  );
  return [
    ...missingFirewall(family, observed),
    ...differences,
    ...gone.map(({ table, name: chainName }): PlannedRuleChange => {
      return { kind: "chain-remove", family, table, chainName, reason: "unwanted" };
    }),
  ];
}

/** Chains that planning touched; yields after each. In a cluster that becomes large these are all chains. */
export function* planTouched(
  family: IpFamily,
  touched: readonly TouchedChain[],
  cached: CachedTables,
  render: RenderRule,
): Generator<void, readonly PlannedRuleChange[]> {
  const changes: PlannedRuleChange[] = [];
  for (const { table, name, chain } of touched) {
    yield;
    if (chain === undefined) {
      if (!cached.has(table, name)) continue;
      changes.push({ kind: "chain-remove", family, table, chainName: name, reason: "unwanted" });
    } else if (!cached.isAsPlanned(chain)) {
      const before = cached.texts(table, name, render);
      const reason = before === undefined ? "missing" : "differs";
      changes.push({ kind: "chain-write", family, chain, before, reason });
    }
  }
  return changes;
}

/** kubelet's chain is made where it is missing, and left as it is where it exists. */
function missingFirewall(
  family: IpFamily,
  observed: readonly ObservedChain[],
): readonly PlannedRuleChange[] {
  const { table, name } = kubeletFirewall;
  if (observed.some((chain) => chain.table === table && chain.name === name)) return [];
  const chain = { table, name, rules: [] };
  return [{ kind: "chain-write", family, chain, before: undefined, reason: "missing" }];
}

/** Versions of iptables-save differ in the spaces that they print. */
function inOneForm(chain: ObservedChain): ObservedChain {
  return { ...chain, rules: chain.rules.map(({ text }) => ({ text: spaced(text) })) };
}

function spaced(text: string): string {
  return text.includes("  ") ? text.replaceAll(/ {2,}/g, " ") : text;
}
