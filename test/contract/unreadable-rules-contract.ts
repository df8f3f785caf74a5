/** The iptables client's behavior when another program adds native nftables rules to an iptables table. */
import assert from "node:assert/strict";
import { describe } from "node:test";
import { UnreadableTableError } from "../../src/kernel/iptables/parse.ts";
import type { Iptables, ObservedChain, RuleChange } from "../../src/kernel/kernel.ts";
import type { Jump, Rule, RuleSet, TableName } from "../../src/state/rule.ts";
import { contractCase, type OpenContractKernel } from "./contract-kernel.ts";

const accept: Rule = { matches: [], target: { kind: "accept" } };

function jump(table: TableName, from: string, chain: string): Jump {
  const comment = { kind: "comment", text: `kubernetes ${chain}` } as const;
  return { table, from, rule: { matches: [comment], target: { kind: "jump", chain } } };
}

const planned: RuleSet = {
  chains: [
    { table: "nat", name: "KUBE-A", rules: [accept] },
    { table: "nat", name: "KUBE-B", rules: [] },
    { table: "filter", name: "KUBE-A", rules: [accept, { ...accept, target: { kind: "drop" } }] },
  ],
  jumps: [
    jump("nat", "POSTROUTING", "KUBE-A"),
    jump("nat", "POSTROUTING", "KUBE-B"),
    jump("filter", "INPUT", "KUBE-A"),
    jump("nat", "OUTPUT", "KUBE-A"),
  ],
};

const all: readonly RuleChange[] = [
  ...planned.chains.map((chain): RuleChange => ({ kind: "chain-write", chain })),
  ...planned.jumps.map((one): RuleChange => ({ kind: "jump-insert", jump: one })),
];

const written = {
  "filter INPUT": ['-m comment --comment "kubernetes KUBE-A" -j KUBE-A'],
  "filter KUBE-A": ["-j ACCEPT", "-j DROP"],
  "nat KUBE-A": ["-j ACCEPT"],
  "nat KUBE-B": [],
  "nat OUTPUT": ['-m comment --comment "kubernetes KUBE-A" -j KUBE-A'],
  "nat POSTROUTING": [
    '-m comment --comment "kubernetes KUBE-B" -j KUBE-B',
    '-m comment --comment "kubernetes KUBE-A" -j KUBE-A',
  ],
};

/** Chain texts by table and name, without empty built-in chains. */
function textsOf(chains: readonly ObservedChain[]): Readonly<Record<string, readonly string[]>> {
  const shown = chains.filter(({ name, rules }) => name.startsWith("KUBE-") || rules.length > 0);
  const entries = shown.map(({ table, name, rules }) => [
    `${table} ${name}`,
    rules.map(({ text }) => text),
  ]);
  return Object.fromEntries(entries.sort());
}

async function observed(iptables: Iptables): Promise<ReturnType<typeof textsOf>> {
  return textsOf(await iptables.observe("IPv4", { planned }));
}

export function describeUnreadableRulesContract(name: string, open: OpenContractKernel): void {
  describe(`${name}: iptables with native nft rules`, () => {
    contractCase(
      open,
      "finds its chains before a native rule is added, and afterwards",
      async (kernel, contract) => {
        const { iptables } = kernel;
        await iptables.apply("IPv4", all);
        assert.deepEqual(await observed(iptables), written);
        assert.deepEqual(await observed(iptables), written);
        contract.addNativeRule("nat", "POSTROUTING");
        assert.deepEqual(await observed(iptables), written);
        contract.removeNativeRules("nat", "POSTROUTING");
        assert.deepEqual(await observed(iptables), written);
      },
    );

    contractCase(open, "finds nothing in an empty table", async ({ iptables }, contract) => {
      contract.addNativeRule("nat", "POSTROUTING");
      contract.addNativeRule("filter", "INPUT");
      assert.deepEqual(await observed(iptables), {});
    });

    contractCase(
      open,
      "rejects operations that need all chains",
      async ({ iptables }, contract) => {
        contract.addNativeRule("filter", "INPUT");
        await assert.rejects(iptables.observe("IPv4"), UnreadableTableError);
        assert.deepEqual(
          await iptables.observe("IPv6", { planned: { chains: [], jumps: [] } }),
          [],
        );
      },
    );

    contractCase(open, "detects lost chains and jumps", async ({ iptables }, contract) => {
      await iptables.apply("IPv4", all);
      contract.addNativeRule("nat", "POSTROUTING");
      await contract.others.iptables.apply("IPv4", [
        { kind: "jump-remove", jump: jump("nat", "POSTROUTING", "KUBE-B") },
        { kind: "jump-remove", jump: jump("filter", "INPUT", "KUBE-A") },
        { kind: "chain-remove", table: "nat", chainName: "KUBE-B" },
        { kind: "chain-write", chain: { table: "nat", name: "KUBE-A", rules: [] } },
      ]);
      const { "filter INPUT": _, "nat KUBE-B": __, ...rest } = written;
      assert.deepEqual(await observed(iptables), {
        ...rest,
        "nat KUBE-A": [],
        "nat POSTROUTING": written["nat POSTROUTING"].slice(1),
      });
    });

    contractCase(open, "still writes and removes", async ({ iptables }, contract) => {
      contract.addNativeRule("nat", "POSTROUTING");
      contract.addNativeRule("filter", "INPUT");
      await iptables.apply("IPv4", all);
      assert.deepEqual(await observed(iptables), written);
      const jumps = planned.jumps.map((one): RuleChange => ({ kind: "jump-remove", jump: one }));
      const chains = planned.chains.map(
        ({ table, name: chain }): RuleChange => ({ kind: "chain-remove", table, chainName: chain }),
      );
      await iptables.apply("IPv4", [...jumps, ...jumps, ...chains]);
      assert.deepEqual(await observed(iptables), {});
    });

    contractCase(
      open,
      "also returns third-party chains if it can read them",
      async (kernel, contract) => {
        const { iptables } = kernel;
        await iptables.apply("IPv4", all);
        contract.addForeignRule("filter", "FORWARD", "-s 192.0.2.1/32 -j DROP");
        const scope = { planned, hasOthers: true } as const;
        assert.deepEqual(textsOf(await iptables.observe("IPv4", scope)), {
          "filter FORWARD": ["-s 192.0.2.1/32 -j DROP"],
          ...written,
        });
        contract.addNativeRule("nat", "POSTROUTING");
        assert.deepEqual(textsOf(await iptables.observe("IPv4", scope)), written);
      },
    );
  });
}
