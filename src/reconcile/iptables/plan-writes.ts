/** Which chains of mode iptables are to be written: all that differ, or those that planning touched. Pure. */
import type { IpFamily } from "../../base/ip.ts";
import type { ObservedChain } from "../../kernel/kernel.ts";
import type { TouchedChain } from "../../plan/iptables/desired-tables.ts";
import { kubeletFirewall } from "../../plan/iptables/fixed-chains.ts";
import { chainKey, type RuleSet } from "../../state/rule.ts";
import { diffChain, diffJumps, type PlannedRuleChange } from "../kinds/diff-rules.ts";
import { cachedRulesInSteps, type RenderRule } from "../kinds/rule-texts.ts";
import { CachedTables } from "./cached-tables.ts";

/** Chains that belong to a service port; only this mode makes them. XLB was EXT before 1.24. */
const ownChain = /^KUBE-(?:SVC|SVL|EXT|FW|SEP|XLB)-[A-Z2-7]{16}$/;

export interface ComparedTables {
  readonly changes: readonly PlannedRuleChange[];
  /** As the tables are now. */
  readonly cached: CachedTables;
}

/**
 * Compares all chains, and yields after each. Lists the chains that differ, the jumps that are missing or out of order, and
 * chains of Services that are gone. What is as planned is not written again.
 */
export function* planEverything(
  family: IpFamily,
  wanted: RuleSet,
  observed: readonly ObservedChain[],
  render: RenderRule,
): Generator<void, ComparedTables> {
  const inForm: RenderRule = (rule) => spaced(render(rule));
  const present = yield* cachedRulesInSteps(inOneForm(observed), wanted, inForm);
  const cached = new CachedTables(family, render);
  const changes = [...missingFirewall(family, observed)];
  for (const chain of wanted.chains) {
    const before = present.chains.get(chainKey(chain.table, chain.name));
    const change = diffChain(chain, { family, before, render: inForm });
    if (change !== undefined) changes.push(change);
    cached.set(chain.table, chain.name, change === undefined ? chain : before);
    yield;
  }
  changes.push(...diffJumps({ family, planned: wanted, cached: present, render: inForm }));
  for (const { table, name } of observed) {
    if (table !== "nat" || !ownChain.test(name) || cached.has(table, name)) continue;
    changes.push({ kind: "chain-remove", family, table, chainName: name, reason: "unwanted" });
    cached.set(table, name, []);
    yield;
  }
  return { changes, cached };
}

/** Chains that planning touched; yields after each. In a cluster that becomes large these are all chains. */
export function* planTouched(
  family: IpFamily,
  touched: Iterable<TouchedChain>,
  cached: CachedTables,
): Generator<void, readonly PlannedRuleChange[]> {
  const changes: PlannedRuleChange[] = [];
  for (const { table, name, chain } of touched) {
    yield;
    if (chain === undefined) {
      if (!cached.has(table, name)) continue;
      changes.push({ kind: "chain-remove", family, table, chainName: name, reason: "unwanted" });
    } else {
      const change = cached.changeTo(chain);
      if (change !== undefined) changes.push(change);
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
function* inOneForm(observed: readonly ObservedChain[]): Generator<ObservedChain> {
  for (const chain of observed) {
    yield { ...chain, rules: chain.rules.map(({ text }) => ({ text: spaced(text) })) };
  }
}

function spaced(text: string): string {
  return text.includes("  ") ? text.replaceAll(/ {2,}/g, " ") : text;
}
