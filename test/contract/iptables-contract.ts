import assert from "node:assert/strict";
import { describe } from "node:test";
import type { IpFamily } from "../../src/base/ip.ts";
import type { Iptables, Kernel, RuleChange } from "../../src/kernel/kernel.ts";
import type { Chain, Jump, Match, Rule, TableName, Target } from "../../src/state/rule.ts";
import { contractCase, type OpenContractKernel } from "./contract-kernel.ts";

const accept: Target = { kind: "accept" };
const comment: Match = { kind: "comment", text: "kubernetes test" };

function rule(target: Target, ...matches: readonly Match[]): Rule {
  return { matches, target };
}

function jump(from: string, chain: string, table: TableName = "filter"): Jump {
  return { table, from, rule: rule({ kind: "jump", chain }, comment) };
}

function write(name: string, rules: readonly Rule[], table: TableName = "filter"): RuleChange {
  return { kind: "chain-write", chain: { table, name, rules } };
}

async function textsOf(
  iptables: Iptables,
  family: IpFamily,
  table: TableName,
  name: string,
): Promise<readonly string[] | undefined> {
  const chains = await iptables.observe(family);
  const chain = chains.find((one) => one.table === table && one.name === name);
  return chain?.rules.map(({ text }) => text);
}

/**
 * Every form of rule that kube-ipvs writes. Both tables are needed, because MASQUERADE belongs to nat and REJECT to
 * filter.
 */
function everyForm(family: IpFamily): readonly Chain[] {
  const isIpv4 = family === "IPv4";
  const network = isIpv4 ? "10.244.0.0/16" : "fd00:244::/32";
  const host = isIpv4 ? "203.0.113.5" : "2001:db8:1::5";
  const set: Match = { kind: "set", name: "KUBE-TEST", directions: ["dst", "dst", "src"] };
  const source = (isNegated: boolean): Match => ({ kind: "source", cidr: network, isNegated });
  const mark = (isNegated: boolean): Match => ({
    kind: "mark",
    value: 0x4000,
    mask: 0x4000,
    isNegated,
  });
  const quoted: Match = { kind: "comment", text: `with type 'hash ip:port', \\ and "quotes"` };
  const nat = [
    rule({ kind: "return" }, source(false)),
    rule({ kind: "jump", chain: "KUBE-OTHER" }, source(true), comment, set),
    rule({ kind: "return" }, mark(true)),
    rule({ kind: "xmark", value: 0x4000, mask: 0 }),
    rule({ kind: "xmark", value: 0x4000, mask: 0x4000 }),
    rule({ kind: "masquerade", isRandomFully: true }, comment),
    rule({ kind: "masquerade", isRandomFully: false }, set),
    rule(accept, set, { kind: "physical-in", isNegated: true }, addressType("src", true)),
    rule(accept, addressType("dst", false)),
    rule({ kind: "return" }, { kind: "protocol", protocol: "tcp" }, quoted),
    rule({ kind: "return" }, { kind: "protocol", protocol: "udp" }),
    rule({ kind: "return" }, { kind: "protocol", protocol: "sctp" }),
    rule(accept, { kind: "in-interface", name: "cbr0", isNegated: true }),
    rule(accept, { kind: "in-interface", name: "veth+", isNegated: false }),
  ];
  const hostSource: Match = {
    kind: "source",
    cidr: `${host}/${isIpv4 ? 32 : 128}`,
    isNegated: false,
  };
  const filter = [
    rule({ kind: "drop" }, hostSource, {
      kind: "ipvs",
      protocolNumber: 6,
      address: host,
      port: 443,
    }),
    rule(accept, comment, mark(false)),
    rule(accept, { kind: "conntrack-state", states: ["RELATED", "ESTABLISHED"] }),
    rule({ kind: "reject" }, { kind: "conntrack-state", states: ["NEW"] }, set),
    rule({ kind: "drop" }),
  ];
  return [
    { table: "nat", name: "KUBE-FORMS", rules: nat },
    { table: "nat", name: "KUBE-OTHER", rules: [] },
    { table: "filter", name: "KUBE-FORMS", rules: filter },
  ];
}

function addressType(end: "src" | "dst", isNegated: boolean): Match {
  return { kind: "address-type", end, type: "LOCAL", isNegated };
}

async function createSet({ ipSets }: Kernel, family: IpFamily): Promise<void> {
  await ipSets.create({
    name: "KUBE-TEST",
    type: "hash:ip,port,ip",
    family,
    maxElements: 65_536,
  });
}

export function describeIptablesContract(name: string, open: OpenContractKernel): void {
  describe(`${name}: iptables`, () => {
    for (const family of ["IPv4", "IPv6"] as const) {
      contractCase(open, `works for ${family} and has no rules initially`, async ({ iptables }) => {
        assert.deepEqual(await iptables.probe(family), { isSupported: true });
        const rules = (await iptables.observe(family)).flatMap((chain) => chain.rules);
        assert.deepEqual(rules, []);
      });

      contractCase(open, `reports every form of rule as written, ${family}`, async (kernel) => {
        await createSet(kernel, family);
        const chains = everyForm(family);
        await kernel.iptables.apply(
          family,
          chains.map((chain) => ({ kind: "chain-write", chain })),
        );
        const observed = await kernel.iptables.observe(family);
        for (const chain of chains) {
          const found = observed.find(
            (one) => one.table === chain.table && one.name === chain.name,
          );
          assert.deepEqual(
            found?.rules,
            chain.rules.map((one) => ({ text: kernel.iptables.render(family, one) })),
          );
        }
      });
    }

    contractCase(open, "keeps the families separate", async ({ iptables }) => {
      await iptables.apply("IPv4", [write("KUBE-A", [rule(accept)])]);
      assert.equal(await textsOf(iptables, "IPv6", "filter", "KUBE-A"), undefined);
    });

    contractCase(open, "detects its own backend again and leaves no trace", async (kernel) => {
      const { iptables } = kernel;
      await iptables.apply("IPv4", [write("KUBE-A", [rule(accept)])]);
      const before = [await iptables.observe("IPv4"), await iptables.observe("IPv6")];
      const finding = await iptables.checkBackend();
      assert.equal(finding.backend, iptables.backend);
      assert.deepEqual(iptables.choice, finding);
      const after = [await iptables.observe("IPv4"), await iptables.observe("IPv6")];
      assert.deepEqual(after, before);
    });

    contractCase(
      open,
      "shows with a generation number whether rules have changed",
      async (kernel, contract) => {
        const { iptables } = kernel;
        const read = async (): Promise<number> => {
          // A single read may fail on a busy kernel, in which case the daemon lists the rules.
          let generation = await iptables.readGeneration("IPv4");
          for (let tries = 1; generation === undefined && tries < 5; tries += 1) {
            generation = await iptables.readGeneration("IPv4");
          }
          assert.ok(generation !== undefined, "no number in five readings");
          await iptables.observe("IPv4");
          assert.equal(await iptables.readGeneration("IPv4"), generation);
          return generation;
        };
        await iptables.apply("IPv4", [write("KUBE-A", [rule(accept)], "nat")]);
        const generations = [await read()];
        await iptables.apply("IPv4", [write("KUBE-A", [rule({ kind: "return" })], "nat")]);
        generations.push(await read());
        await iptables.apply("IPv4", [write("KUBE-B", [])]);
        generations.push(await read());
        contract.addForeignRule("filter", "INPUT", "-s 192.0.2.1/32 -j DROP");
        generations.push(await read());
        await iptables.apply("IPv4", [
          { kind: "jump-insert", jump: jump("INPUT", "KUBE-B") },
          { kind: "chain-remove", table: "nat", chainName: "KUBE-A" },
        ]);
        generations.push(await read());
        assert.equal(new Set(generations).size, generations.length);
      },
    );

    contractCase(open, "replaces the contents of a chain", async ({ iptables }) => {
      await iptables.apply("IPv4", [write("KUBE-A", [rule(accept), rule({ kind: "drop" })])]);
      await iptables.apply("IPv4", [write("KUBE-A", [rule({ kind: "return" })])]);
      assert.deepEqual(await textsOf(iptables, "IPv4", "filter", "KUBE-A"), ["-j RETURN"]);
      await iptables.apply("IPv4", [write("KUBE-A", [])]);
      assert.deepEqual(await textsOf(iptables, "IPv4", "filter", "KUBE-A"), []);
    });

    contractCase(
      open,
      "leaves other chains and rules unchanged",
      async ({ iptables }, contract) => {
        const foreign = contract.addForeignRule("filter", "INPUT", "-s 192.0.2.1/32 -j DROP");
        await iptables.apply("IPv4", [
          write("KUBE-A", []),
          { kind: "jump-insert", jump: jump("INPUT", "KUBE-A") },
        ]);
        assert.deepEqual(await textsOf(iptables, "IPv4", "filter", "INPUT"), [
          '-m comment --comment "kubernetes test" -j KUBE-A',
          foreign,
        ]);
      },
    );

    contractCase(
      open,
      "reads only the chains of a plan and of its jumps",
      async ({ iptables }, contract) => {
        contract.addForeignRule("filter", "FORWARD", "-s 192.0.2.1/32 -j DROP");
        await iptables.apply("IPv4", [
          write("KUBE-A", [rule(accept)]),
          write("KUBE-AB", [rule(accept)]),
          { kind: "jump-insert", jump: jump("INPUT", "KUBE-A") },
        ]);
        const planned = {
          chains: [{ table: "filter", name: "KUBE-A", rules: [] }],
          jumps: [jump("INPUT", "KUBE-A")],
        } as const;
        const observed = await iptables.observe("IPv4", { planned });
        const inFilter = observed.filter(({ table }) => table === "filter");
        assert.deepEqual(
          inFilter.map(({ name, rules }) => [name, ...rules.map(({ text }) => text)]),
          [
            ["INPUT", '-m comment --comment "kubernetes test" -j KUBE-A'],
            ["KUBE-A", "-j ACCEPT"],
          ],
        );
      },
    );

    contractCase(open, "puts the last inserted jump first", async ({ iptables }) => {
      await iptables.apply("IPv4", [
        write("KUBE-A", []),
        write("KUBE-B", []),
        { kind: "jump-insert", jump: jump("INPUT", "KUBE-A") },
        { kind: "jump-insert", jump: jump("INPUT", "KUBE-B") },
      ]);
      assert.deepEqual(await textsOf(iptables, "IPv4", "filter", "INPUT"), [
        '-m comment --comment "kubernetes test" -j KUBE-B',
        '-m comment --comment "kubernetes test" -j KUBE-A',
      ]);
    });

    contractCase(
      open,
      "removes one copy of a jump at a time, and accepts absent ones",
      async (kernel) => {
        const { iptables } = kernel;
        const removal: RuleChange = { kind: "jump-remove", jump: jump("INPUT", "KUBE-A") };
        const insertion: RuleChange = { kind: "jump-insert", jump: jump("INPUT", "KUBE-A") };
        await iptables.apply("IPv4", [write("KUBE-A", []), insertion, insertion]);
        await iptables.apply("IPv4", [removal]);
        assert.equal((await textsOf(iptables, "IPv4", "filter", "INPUT"))?.length, 1);
        await iptables.apply("IPv4", [removal, removal]);
        assert.deepEqual(await textsOf(iptables, "IPv4", "filter", "INPUT"), []);
        await iptables.apply("IPv4", [
          write("KUBE-A", [], "nat"),
          { kind: "jump-insert", jump: jump("OUTPUT", "KUBE-A", "nat") },
          removal,
        ]);
        assert.equal((await textsOf(iptables, "IPv4", "nat", "OUTPUT"))?.length, 1);
      },
    );

    contractCase(open, "removes chains, including absent ones", async ({ iptables }) => {
      const removal = (chain: string): RuleChange => ({
        kind: "chain-remove",
        table: "filter",
        chainName: chain,
      });
      await iptables.apply("IPv4", [
        write("KUBE-A", [rule({ kind: "jump", chain: "KUBE-B" })]),
        write("KUBE-B", [rule(accept)]),
        { kind: "jump-insert", jump: jump("INPUT", "KUBE-A") },
      ]);
      await assert.rejects(iptables.apply("IPv4", [removal("KUBE-A")]));
      await iptables.apply("IPv4", [
        { kind: "jump-remove", jump: jump("INPUT", "KUBE-A") },
        removal("KUBE-A"),
        removal("KUBE-B"),
        removal("KUBE-ABSENT"),
      ]);
      const names = (await iptables.observe("IPv4")).map((chain) => chain.name);
      assert.deepEqual(
        names.filter((one) => one.startsWith("KUBE-")),
        [],
      );
    });

    const broken: readonly [string, Rule, RegExp][] = [
      [
        "names an absent set",
        rule(accept, { kind: "set", name: "KUBE-ABSENT", directions: ["dst"] }),
        /KUBE-ABSENT/,
      ],
      ["jumps to an absent chain", rule({ kind: "jump", chain: "KUBE-ABSENT" }), /KUBE-ABSENT/],
    ];
    for (const [what, bad, message] of broken) {
      contractCase(open, `changes nothing in a table if a rule ${what}`, async ({ iptables }) => {
        await iptables.apply("IPv4", [write("KUBE-A", [rule(accept)])]);
        const changes = [
          write("KUBE-A", [rule({ kind: "drop" })]),
          write("KUBE-B", [bad]),
          write("KUBE-A", [rule(accept)], "nat"),
        ];
        await iptables.apply("IPv4", [write("KUBE-A", [], "nat")]);
        await assert.rejects(iptables.apply("IPv4", changes), message);
        assert.deepEqual(await textsOf(iptables, "IPv4", "filter", "KUBE-A"), ["-j ACCEPT"]);
        assert.equal(await textsOf(iptables, "IPv4", "filter", "KUBE-B"), undefined);
        // Each table is committed separately, filter before nat.
        assert.deepEqual(await textsOf(iptables, "IPv4", "nat", "KUBE-A"), []);
      });
    }
  });
}
