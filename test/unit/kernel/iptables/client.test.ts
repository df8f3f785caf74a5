import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { BackendChoice } from "../../../../src/kernel/iptables/backend.ts";
import { IptablesClient } from "../../../../src/kernel/iptables/client.ts";
import { IptablesError, isIptablesBusy } from "../../../../src/kernel/iptables/errors.ts";
import type { RuleChange } from "../../../../src/kernel/kernel.ts";
import { ProgramError } from "../../../../src/kernel/program.ts";
import type { Jump, TableName } from "../../../../src/state/rule.ts";
import { type ProgramAnswer, programs as programsOf } from "../programs.ts";

const legacy: BackendChoice = {
  backend: "legacy",
  programs: { IPv4: "iptables-legacy", IPv6: "ip6tables-legacy" },
  reason: "in tests",
};

const generations = { read: async () => undefined };

function clientOf(answers: Readonly<Record<string, ProgramAnswer | readonly ProgramAnswer[]>>): {
  readonly client: IptablesClient;
  readonly calls: ReturnType<typeof programsOf>["calls"];
} {
  const { run, calls } = programsOf(answers);
  return { client: new IptablesClient({ runProgram: run, generations }, legacy), calls };
}

function jump(table: TableName, from: string): Jump {
  return { table, from, rule: { matches: [], target: { kind: "jump", chain: "KUBE-A" } } };
}

const writeNat: RuleChange = {
  kind: "chain-write",
  chain: { table: "nat", name: "KUBE-A", rules: [] },
};
const removeFromInput: RuleChange = { kind: "jump-remove", jump: jump("filter", "INPUT") };

const saved = "*filter\n:INPUT ACCEPT [0:0]\n:KUBE-A - [0:0]\n-A INPUT -j KUBE-A\nCOMMIT\n";
const savedWithout = saved.replace("-A INPUT -j KUBE-A\n", "");

describe("the iptables client", () => {
  it("observes with one process per family, without a table name", async () => {
    const { client, calls } = clientOf({ "ip6tables-legacy-save": { output: saved } });
    const chains = await client.observe("IPv6");
    assert.equal(chains.length, 2);
    assert.deepEqual(
      calls.map((call) => [call.program, call.arguments]),
      [["ip6tables-legacy-save", []]],
    );
  });

  it("gives a larger restore more time", async () => {
    const { client, calls } = clientOf({ "iptables-legacy-restore": {} });
    const returns = { matches: [], target: { kind: "return" } } as const;
    for (const count of [1, 100_000]) {
      const rules = Array.from({ length: count }, () => returns);
      const chain = { table: "nat", name: "KUBE-A", rules } as const;
      await client.apply("IPv4", [{ kind: "chain-write", chain }]);
    }
    const [small = 0, large = 0] = calls.map(({ timeoutMs }) => timeoutMs);
    assert.equal(small, 60_000);
    assert.ok(large >= 2 * small, `${large} ms`);
  });

  it("applies with one process that waits for the lock and keeps other chains", async () => {
    const { client, calls } = clientOf({ "iptables-legacy-restore": {} });
    await client.apply("IPv4", [writeNat, removeFromInput]);
    assert.deepEqual(
      calls.map((call) => [call.program, call.arguments, call.input]),
      [
        [
          "iptables-legacy-restore",
          ["-w", "5", "--noflush", "--counters"],
          "*filter\n-D INPUT -j KUBE-A\nCOMMIT\n*nat\n:KUBE-A - [0:0]\nCOMMIT\n",
        ],
      ],
    );
  });

  it("starts no process without changes", async () => {
    const { client, calls } = clientOf({});
    await client.apply("IPv4", []);
    assert.equal(calls.length, 0);
  });

  it("omits a missing jump, and does not write filter twice", async () => {
    const failure = { exitCode: 1, errorOutput: "iptables-restore: line 6 failed\n" };
    const { client, calls } = clientOf({
      "iptables-legacy-restore": [failure, {}],
      "iptables-legacy-save": { output: savedWithout },
    });
    await client.apply("IPv4", [
      { kind: "chain-write", chain: { table: "filter", name: "KUBE-A", rules: [] } },
      { kind: "jump-insert", jump: jump("filter", "FORWARD") },
      { kind: "jump-remove", jump: jump("nat", "OUTPUT") },
      { kind: "jump-insert", jump: jump("nat", "PREROUTING") },
    ]);
    assert.equal(calls.at(-1)?.input, "*nat\n-I PREROUTING -j KUBE-A\nCOMMIT\n");
  });

  it("succeeds if all changes were removals of missing jumps", async () => {
    const failure = { exitCode: 1, errorOutput: "iptables-restore: line 2 failed\n" };
    const { client, calls } = clientOf({
      "iptables-legacy-restore": failure,
      "iptables-legacy-save": { output: savedWithout },
    });
    await client.apply("IPv4", [removeFromInput]);
    assert.equal(calls.length, 2);
  });

  it("reports a failure that missing jumps do not explain", async () => {
    const failure = { exitCode: 1, errorOutput: "iptables-restore: line 2 failed\n" };
    const { client } = clientOf({
      "iptables-legacy-restore": failure,
      "iptables-legacy-save": { output: saved },
    });
    await assert.rejects(client.apply("IPv4", [removeFromInput]), IptablesError);
  });

  it("reports whether a family works and, if not, why", async () => {
    const refusal = { exitCode: 3, errorOutput: "can't initialize ip6tables table `nat'" };
    const { client } = clientOf({
      "iptables-legacy-restore": {},
      "ip6tables-legacy-restore": refusal,
    });
    assert.deepEqual(await client.probe("IPv4"), { isSupported: true });
    const { isSupported, reason } = await client.probe("IPv6");
    assert.equal(isSupported, false);
    assert.match(reason ?? "", /can't initialize ip6tables table/);
  });

  it("treats a family as supported while another program holds the lock", async () => {
    const errorOutput =
      "Another app is currently holding the xtables lock. Stopped waiting after 5s.\n";
    const { client } = clientOf({ "iptables-legacy-restore": { exitCode: 4, errorOutput } });
    assert.deepEqual(await client.probe("IPv4"), { isSupported: true });
  });

  it("reports a missing program", async () => {
    const { client } = clientOf({});
    assert.equal((await client.probe("IPv4")).isSupported, false);
    await assert.rejects(client.observe("IPv4"), ProgramError);
  });

  it("reports a change of backend, but keeps its own", async () => {
    const { client } = clientOf({
      "iptables-nft-save": { output: "*nat\n:A - [0:0]\n-A A -j DROP\nCOMMIT\n" },
      iptables: { output: "iptables v1.8.9 (legacy)" },
    });
    assert.equal((await client.checkBackend()).backend, "nft");
    assert.equal(client.backend, "legacy");
  });

  it("reports no change of backend while the rules of its own backend cannot be read", async () => {
    const { client } = clientOf({
      "iptables-legacy-save": { exitCode: 1, errorOutput: "Cannot allocate memory" },
      "iptables-nft-save": { output: "*nat\n:A - [0:0]\n-A A -j DROP\nCOMMIT\n" },
    });
    await assert.rejects(client.checkBackend(), /iptables-legacy-save exited with code 1.*memory/);
  });
});

describe("an iptables error", () => {
  const cases: readonly {
    readonly name: string;
    readonly exitCode: number;
    readonly errorOutput: string;
    readonly message: RegExp;
    readonly table: TableName | undefined;
    readonly isBusy?: true;
  }[] = [
    {
      name: "a missing set (legacy)",
      exitCode: 2,
      errorOutput:
        "iptables-restore v1.8.9 (legacy): Set NOPE doesn't exist.\n\nError occurred at line: 5\nTry `iptables-restore -h' or 'iptables-restore --help' for more information.\n",
      message:
        /^Cannot write iptables rules \(IPv4\): iptables-legacy-restore exited with code 2: a set, chain.*Set NOPE doesn't exist\..*; at: :KUBE-A - \[0:0\]$/,
      table: "nat",
    },
    {
      name: "a rejected change (nft)",
      exitCode: 4,
      errorOutput:
        "iptables-nft-restore v1.8.9 (nf_tables): \nline 2: CHAIN_DEL failed (Device or resource busy): chain X\n",
      message:
        /exited with code 4: the kernel rejected the change \(.*CHAIN_DEL failed.*at: -D INPUT -j KUBE-A$/,
      table: "filter",
    },
    {
      name: "a match without a kernel module (nft)",
      exitCode: 4,
      errorOutput:
        "Warning: Extension ipvs revision 0 not supported, missing kernel module?\niptables-nft-restore v1.8.9 (nf_tables): \nline 2: RULE_APPEND failed (No such file or directory): rule in chain KUBE-A\n",
      message:
        /exited with code 4: the kernel lacks xt_ipvs, or nft_compat if .* modprobe.*RULE_APPEND/,
      table: "filter",
    },
    {
      name: "a kernel without nft_compat",
      exitCode: 4,
      errorOutput:
        "iptables-nft-restore v1.8.9 (nf_tables): \nline 2: RULE_APPEND failed (No such file or directory): rule in chain KUBE-A\n",
      message: /exited with code 4: the kernel lacks a match or target \(xt_…\), or nft_compat if/,
      table: "filter",
    },
    {
      name: "a match without a kernel module (legacy)",
      exitCode: 1,
      errorOutput:
        "Warning: Extension ipvs revision 0 not supported, missing kernel module?\niptables-restore: line 2 failed\n",
      message: /exited with code 1: the kernel lacks xt_ipvs, or nft_compat/,
      table: "filter",
    },
    {
      name: "the lock held by another program",
      exitCode: 4,
      errorOutput: "Another app is currently holding the xtables lock. Stopped waiting after 5s.\n",
      message: /exited with code 4: another program holds the xtables lock/,
      table: undefined,
      isBusy: true,
    },
    {
      name: "nothing said",
      exitCode: 1,
      errorOutput: "",
      message: /iptables-legacy-restore exited with code 1$/,
      table: undefined,
    },
  ];
  for (const { name, exitCode, errorOutput, message, table, isBusy = false } of cases) {
    it(`explains ${name}`, async () => {
      const { client } = clientOf({
        "iptables-legacy-restore": { exitCode, errorOutput },
        "iptables-legacy-save": { output: saved },
      });
      await assert.rejects(client.apply("IPv4", [writeNat, removeFromInput]), (error: unknown) => {
        assert.ok(error instanceof IptablesError);
        assert.match(error.message, message);
        assert.doesNotMatch(error.message, /\n|--help/);
        assert.equal(error.table, table);
        assert.equal(isIptablesBusy(error), isBusy);
        return true;
      });
    });
  }
});
