/** Plans the chains to write in iptables mode: all chains that differ, or those that planning touched. Pure. */
import type { IpFamily } from "../../base/ip.ts";
import type { ObservedChain } from "../../kernel/kernel.ts";
import type { TouchedChain } from "../../plan/iptables/desired-tables.ts";
import { kubeletFirewall } from "../../plan/iptables/fixed-chains.ts";
import { chainKey, type RuleSet } from "../../state/rule.ts";
import { diffChain, diffJumps, type PlannedRuleChange } from "../kinds/diff-rules.ts";
import { cachedRulesInSteps, type RenderRule } from "../kinds/rule-texts.ts";
import { CachedTables } from "./cached-tables.ts";

/** Chains of a service port, which only this mode creates. Before Kubernetes 1.24, XLB was used instead of EXT. */
const ownChain = /^KUBE-(?:SVC|SVL|EXT|FW|SEP|XLB)-[A-Z2-7]{16}$/;

export interface ComparedTables {
  readonly changes: readonly PlannedRuleChange[];
  /** The current state of the tables. */
  readonly cached: CachedTables;
}

/**
 * Compares all chains, and yields after each. Plans the chains that differ, jumps that are missing or out of order,
 * and the removal of chains of former Services. Chains that are as planned are not written again.
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

/**
 * Plans the chains that planning touched, and yields after each. If a cluster becomes large, these are all chains.
 */
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

/** kubelet's chain is created if it does not exist, and never changed. */
function missingFirewall(
  family: IpFamily,
  observed: readonly ObservedChain[],
): readonly PlannedRuleChange[] {
  const { table, name } = kubeletFirewall;
  if (observed.some((chain) => chain.table === table && chain.name === name)) return [];
  const chain = { table, name, rules: [] };
  return [{ kind: "chain-write", family, chain, before: undefined, reason: "missing" }];
}

/** Normalizes spaces, because versions of iptables-save print different numbers of them. */
function* inOneForm(observed: readonly ObservedChain[]): Generator<ObservedChain> {
  for (const chain of observed) {
    yield { ...chain, rules: chain.rules.map(({ text }) => ({ text: spaced(text) })) };
  }
}

function spaced(text: string): string {
  return text.includes("  ") ? text.replaceAll(/ {2,}/g, " ") : text;
}
