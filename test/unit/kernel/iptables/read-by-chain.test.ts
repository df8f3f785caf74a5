/** Tests the client and the nft backend with answers from iptables 1.8.9. The contract suite uses the real program. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { BackendChoice } from "../../../../src/kernel/iptables/backend.ts";
import { IptablesClient } from "../../../../src/kernel/iptables/client.ts";
import { UnreadableTableError } from "../../../../src/kernel/iptables/parse.ts";
import type { ObservedChain } from "../../../../src/kernel/kernel.ts";
import type { Jump, RuleSet } from "../../../../src/state/rule.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { type ProgramAnswer, programs } from "../programs.ts";

const nft: BackendChoice = {
  backend: "nft",
  programs: { IPv4: "iptables-nft", IPv6: "ip6tables-nft" },
  reason: "in tests",
};

function jump(from: string): Jump {
  return { table: "nat", from, rule: { matches: [], target: { kind: "jump", chain: "KUBE-A" } } };
}

const planned: RuleSet = {
  chains: [{ table: "nat", name: "KUBE-A", rules: [] }],
  jumps: [jump("OUTPUT"), jump("POSTROUTING")],
};

const saved =
  "*nat\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n:KUBE-A - [0:0]\n-A OUTPUT -j KUBE-A\nCOMMIT\n";
const incompatible = { output: "# Table `nat' is incompatible, use 'nft' tool.\n" };
const listing = "*nat\n-S KUBE-A\n-S OUTPUT\n-S POSTROUTING\nCOMMIT\n";
const stopsAtPostrouting = {
  exitCode: 1,
  output: "-N KUBE-A\n-P OUTPUT ACCEPT\n-A OUTPUT -j KUBE-A\n",
  errorOutput:
    "iptables-nft-restore v1.8.9 (nf_tables): chain `POSTROUTING' in table `nat' is incompatible, use 'nft' tool.\n",
};
const unreadableRule = {
  exitCode: 3,
  errorOutput: "Error: cmp sreg undef\niptables-nft-restore: Parsing nftables rule failed\n",
};

function clientOf(answers: Readonly<Record<string, ProgramAnswer | readonly ProgramAnswer[]>>) {
  const { run, calls } = programs(answers);
  const log = new RecordingLogger();
  const generations = { read: async () => undefined };
  const client = new IptablesClient({ runProgram: run, generations, log }, nft);
  return { client, log, inputs: () => calls.map(({ input }) => input) };
}

function shown(chains: readonly ObservedChain[]): readonly string[] {
  return chains.map(({ name, rules }) => [name, ...rules.map(({ text }) => text)].join(" "));
}

describe("rules in nft", () => {
  it("are saved at first, then read chain by chain", async () => {
    const output = "-N KUBE-A\n-P OUTPUT ACCEPT\n-A OUTPUT -j KUBE-A\n-P POSTROUTING ACCEPT\n";
    const { client, inputs } = clientOf({
      "iptables-nft-save": { output: saved },
      "iptables-nft-restore": { output },
    });
    const first = await client.observe("IPv4", { planned });
    assert.deepEqual(shown(first), ["OUTPUT -j KUBE-A", "POSTROUTING", "KUBE-A"]);
    const second = await client.observe("IPv4", { planned });
    assert.deepEqual(shown(second), ["KUBE-A", "OUTPUT -j KUBE-A", "POSTROUTING"]);
    assert.deepEqual(inputs(), [undefined, listing]);
  });

  it("are also read chain by chain in mangle", async () => {
    const inMangle: RuleSet = {
      chains: [{ table: "mangle", name: "KUBE-A", rules: [] }],
      jumps: [{ ...jump("OUTPUT"), table: "mangle" }],
    };
    const { client } = clientOf({
      "iptables-nft-save": { output: saved.replace("*nat", "*mangle") },
      "iptables-nft-restore": { output: "-N KUBE-A\n-P OUTPUT ACCEPT\n-A OUTPUT -j KUBE-A\n" },
    });
    await client.observe("IPv4", { planned: inMangle });
    const chains = await client.observe("IPv4", { planned: inMangle });
    assert.deepEqual(shown(chains), ["KUBE-A", "OUTPUT -j KUBE-A"]);
  });

  it("are read with iptables-save again if the program's output cannot be parsed", async () => {
    const answers: readonly ProgramAnswer[] = [
      { exitCode: 2, errorOutput: "unknown option -S" },
      { output: "-N KUBE-OTHER\n" },
      { exitCode: 1, output: "-N KUBE-A\n", errorOutput: "no memory" },
    ];
    for (const answer of answers) {
      const { client } = clientOf({
        "iptables-nft-save": { output: saved },
        "iptables-nft-restore": answer,
      });
      await client.observe("IPv4", { planned });
      assert.equal((await client.observe("IPv4", { planned })).length, 3);
    }
  });

  it("are checked one by one in a chain that cannot be printed, which is logged once", async () => {
    const { client, log, inputs } = clientOf({
      "iptables-nft-save": incompatible,
      "iptables-nft-restore": [stopsAtPostrouting, {}, stopsAtPostrouting, {}],
    });
    for (let look = 0; look < 2; look += 1) {
      const chains = await client.observe("IPv4", { planned });
      assert.deepEqual(shown(chains), ["KUBE-A", "OUTPUT -j KUBE-A", "POSTROUTING -j KUBE-A"]);
    }
    assert.deepEqual(inputs().slice(1, 3), [listing, "*nat\n-C POSTROUTING -j KUBE-A\nCOMMIT\n"]);
    const lines = log.lines.filter(({ event }) => /cannot read/.test(event));
    assert.deepEqual(
      lines.map(({ keys }) => keys["chains"]),
      [["nat POSTROUTING"]],
    );
  });

  it("stay in their own chain if two chains cannot be printed", async () => {
    const stopped = "chain is incompatible, use 'nft' tool.\n";
    const { client } = clientOf({
      "iptables-nft-save": incompatible,
      "iptables-nft-restore": [
        { exitCode: 1, output: "-N KUBE-A\n", errorOutput: stopped },
        { exitCode: 1, errorOutput: stopped },
        {},
      ],
    });
    const chains = await client.observe("IPv4", { planned });
    assert.deepEqual(shown(chains), ["KUBE-A", "OUTPUT -j KUBE-A", "POSTROUTING -j KUBE-A"]);
  });

  it("are treated as missing if the program finds none above a rule that it cannot read", async () => {
    const { client } = clientOf({
      "iptables-nft-save": incompatible,
      "iptables-nft-restore": [stopsAtPostrouting, unreadableRule],
    });
    const chains = await client.observe("IPv4", { planned });
    assert.deepEqual(shown(chains), ["KUBE-A", "OUTPUT -j KUBE-A", "POSTROUTING"]);
  });

  it("cannot be read without a plan, or if no output can be parsed", async () => {
    const { client } = clientOf({
      "iptables-nft-save": incompatible,
      "iptables-nft-restore": { exitCode: 2, errorOutput: "unknown option -S" },
    });
    await assert.rejects(client.observe("IPv4"), UnreadableTableError);
    await assert.rejects(client.observe("IPv4", { planned }), UnreadableTableError);
  });
});
