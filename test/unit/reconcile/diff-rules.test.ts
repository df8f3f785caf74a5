import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { finish } from "../../../src/base/time-slice.ts";
import type { ObservedChain } from "../../../src/kernel/kernel.ts";
import type { FamilyRuleChange } from "../../../src/reconcile/change.ts";
import { diffRules, type PlannedRuleChange } from "../../../src/reconcile/kinds/diff-rules.ts";
import {
  type CachedRules,
  cachedRulesInSteps,
} from "../../../src/reconcile/observed/cached-rules.ts";
import { chainKey, type Jump, type Rule, type RuleSet } from "../../../src/state/rule.ts";

/** Any text that differs for different rules is sufficient. */
const render = (rule: Rule): string => JSON.stringify(rule);

function jump(chain: string): Jump {
  return { table: "filter", from: "INPUT", rule: { matches: [], target: { kind: "jump", chain } } };
}

const first = jump("KUBE-NODE-PORT");
const second = jump("KUBE-IPVS-FILTER");
const planned: RuleSet = {
  chains: [
    {
      table: "filter",
      name: "KUBE-NODE-PORT",
      rules: [{ matches: [], target: { kind: "accept" } }],
    },
    { table: "filter", name: "KUBE-IPVS-FILTER", rules: [] },
  ],
  jumps: [first, second],
};

function observed(chains: Readonly<Record<string, readonly string[]>>): readonly ObservedChain[] {
  return Object.entries(chains).map(([name, texts]) => ({
    table: "filter",
    name,
    rules: texts.map((text) => ({ text })),
  }));
}

function cachedFrom(chains: Readonly<Record<string, readonly string[]>>): CachedRules {
  return finish(cachedRulesInSteps(observed(chains), planned, render));
}

function changesOf(cached: CachedRules, wanted = planned): readonly PlannedRuleChange[] {
  return finish(diffRules({ family: "IPv4", planned: wanted, cached }));
}

const inPlace = {
  INPUT: [render(second.rule), render(first.rule)],
  "KUBE-NODE-PORT": [render({ matches: [], target: { kind: "accept" } })],
  "KUBE-IPVS-FILTER": [],
};

const cases: readonly {
  readonly name: string;
  readonly chains: Readonly<Record<string, readonly string[]>>;
  readonly want: readonly string[];
}[] = [
  { name: "nothing if everything is as planned", chains: inPlace, want: [] },
  {
    name: "nothing if third-party rules are before, between and after kube-ipvs's",
    chains: {
      ...inPlace,
      INPUT: ["-j A", inPlace.INPUT[0] ?? "", "-j B", inPlace.INPUT[1] ?? "", "-j C"],
    },
    want: [],
  },
  {
    name: "everything on an empty table, jumps in insertion order",
    chains: { INPUT: [] },
    want: [
      "write KUBE-NODE-PORT",
      "write KUBE-IPVS-FILTER",
      "insert KUBE-NODE-PORT",
      "insert KUBE-IPVS-FILTER",
    ],
  },
  {
    name: "a missing chain that should be empty",
    chains: { INPUT: inPlace.INPUT, "KUBE-NODE-PORT": inPlace["KUBE-NODE-PORT"] },
    want: ["write KUBE-IPVS-FILTER"],
  },
  {
    name: "a chain with an extra rule",
    chains: { ...inPlace, "KUBE-IPVS-FILTER": ["-j DROP"] },
    want: ["write KUBE-IPVS-FILTER"],
  },
  {
    name: "only the upper jump if it is lost",
    chains: { ...inPlace, INPUT: ["-j A", render(first.rule), "-j B"] },
    want: ["insert KUBE-IPVS-FILTER"],
  },
  {
    name: "the whole group if a lower jump is lost, to preserve the order",
    chains: { ...inPlace, INPUT: ["-j A", render(second.rule)] },
    want: ["remove KUBE-IPVS-FILTER", "insert KUBE-NODE-PORT", "insert KUBE-IPVS-FILTER"],
  },
  {
    name: "the whole group if the jumps are in the wrong order",
    chains: { ...inPlace, INPUT: inPlace.INPUT.toReversed() },
    want: [
      "remove KUBE-NODE-PORT",
      "remove KUBE-IPVS-FILTER",
      "insert KUBE-NODE-PORT",
      "insert KUBE-IPVS-FILTER",
    ],
  },
  {
    name: "each copy of a duplicate jump",
    chains: { ...inPlace, INPUT: [render(second.rule), ...inPlace.INPUT] },
    want: [
      "remove KUBE-IPVS-FILTER",
      "remove KUBE-IPVS-FILTER",
      "remove KUBE-NODE-PORT",
      "insert KUBE-NODE-PORT",
      "insert KUBE-IPVS-FILTER",
    ],
  },
];

describe("diffRules writes", () => {
  for (const { name, chains, want } of cases) {
    it(name, () => {
      assert.deepEqual(changesOf(cachedFrom(chains)).map(changeText), want);
    });
  }

  it("nothing after the plan was written", () => {
    const cached = cachedFrom({ INPUT: ["-j A"] });
    for (const change of changesOf(cached)) cached.note(change);
    assert.deepEqual(changesOf(cached), []);
  });

  it("nothing, without comparing rules, while the plan is the one that was written", () => {
    const cached = cachedFrom({});
    cached.plan = planned;
    assert.deepEqual(changesOf(cached), []);
    assert.equal(changesOf(cached, { ...planned }).length, 4);
  });

  it("changes with their reasons and the previous state", () => {
    const chains = { ...inPlace, "KUBE-IPVS-FILTER": ["-j DROP"] };
    const { "KUBE-NODE-PORT": _, ...lost } = chains;
    const reasons = changesOf(cachedFrom(lost)).map((change) => [
      change.reason,
      change.kind === "chain-write" ? change.before : undefined,
    ]);
    assert.deepEqual(reasons, [
      ["missing", undefined],
      ["differs", ["-j DROP"]],
    ]);
  });
});

function changeText(change: FamilyRuleChange): string {
  switch (change.kind) {
    case "chain-write":
      return `write ${change.chain.name}`;
    case "jump-insert":
    case "jump-remove": {
      const { target } = change.jump.rule;
      const chain = target.kind === "jump" ? target.chain : "";
      return `${change.kind === "jump-insert" ? "insert" : "remove"} ${chain}`;
    }
    case "chain-remove":
      return `remove chain ${change.chainName}`;
  }
}

describe("the rules of the next plan", () => {
  const own = "KUBE-SVC-AAAAAAAAAAAAAAAA";
  const chain = {
    table: "nat",
    name: own,
    rules: [{ matches: [], target: { kind: "drop" } }],
  } as const;
  const revision = Symbol("matched");
  const ofServices = { others: [], own: /^KUBE-SVC-/ };
  const next = (changes: RuleSet["changes"], chains: RuleSet["chains"] = []): RuleSet => ({
    ...{ jumps: [], ofServices },
    ...(changes === undefined ? {} : { changes }),
    get chains() {
      if (changes?.since === revision) assert.fail("All chains were listed");
      return chains;
    },
  });

  function cachedWith(plan: RuleSet): CachedRules {
    const chains = [{ table: "nat", name: own, rules: [] }] as const;
    const cached = finish(cachedRulesInSteps(chains, plan, render));
    cached.plan = plan;
    return cached;
  }

  it("are compared only where they differ from the plan that the kernel has", () => {
    const cached = cachedWith({ ...next(undefined), revision });
    const changed = changesOf(cached, next({ since: revision, chains: [chain], gone: [] }));
    assert.deepEqual(changed.map(changeText), [`write ${own}`]);
    const absent = chainKey("nat", "KUBE-SVC-BBBBBBBBBBBBBBBB");
    const gone = [chainKey("nat", own), absent];
    const removed = changesOf(cached, next({ since: revision, chains: [], gone }));
    assert.deepEqual(removed.map(changeText), [`remove chain ${own}`]);
  });

  it("are all compared if the kernel has the rules of another plan", () => {
    const cached = cachedWith(next(undefined));
    const changes = { since: Symbol("other"), chains: [], gone: [] };
    assert.deepEqual(changesOf(cached, next(changes, [chain])).map(changeText), [`write ${own}`]);
    cached.note({ kind: "chain-write", family: "IPv4", chain, before: [] });
    assert.deepEqual(changesOf(cached, next(changes)).map(changeText), [`remove chain ${own}`]);
  });
});
