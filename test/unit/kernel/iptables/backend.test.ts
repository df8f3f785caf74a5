import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type BackendSurveys,
  chooseBackend,
  pickBackend,
} from "../../../../src/kernel/iptables/backend.ts";
import { ProgramError } from "../../../../src/kernel/program.ts";
import { portalRules } from "../../../../src/userspace/portal-rules.ts";
import { programs } from "../programs.ts";

const none = {
  isInstalled: true,
  hasKubeletChain: false,
  ruleCount: 0,
  hasChains: false,
};
const absent = { ...none, isInstalled: false };

const choices: readonly [name: string, surveys: BackendSurveys, backend: string, why: RegExp][] = [
  [
    "kubelet's chain in nft, regardless of legacy",
    {
      nft: { ...none, hasKubeletChain: true, ruleCount: 1 },
      legacy: { ...none, ruleCount: 50 },
      standard: "legacy",
    },
    "nft",
    /kubelet/,
  ],
  [
    "kubelet's chain in legacy",
    { nft: none, legacy: { ...none, hasKubeletChain: true }, standard: "nft" },
    "legacy",
    /kubelet/,
  ],
  [
    "more rules in legacy",
    { nft: { ...none, ruleCount: 2 }, legacy: { ...none, ruleCount: 3 }, standard: "nft" },
    "legacy",
    /more rules/,
  ],
  [
    "more rules in nft",
    { nft: { ...none, ruleCount: 1 }, legacy: none, standard: "legacy" },
    "nft",
    /more rules/,
  ],
  ["no rules", { nft: none, legacy: none, standard: "legacy" }, "legacy", /default/],
  ["no rules", { nft: none, legacy: none, standard: "nft" }, "nft", /default/],
  [
    "only legacy programs",
    { nft: absent, legacy: none, standard: undefined },
    "legacy",
    /only its programs/,
  ],
];

describe("the iptables backend", () => {
  for (const [name, surveys, backend, why] of choices) {
    it(`is ${backend} with ${name}`, () => {
      const choice = pickBackend(surveys);
      assert.equal(choice.backend, backend);
      assert.match(choice.reason, why);
      const family = backend === "nft" ? "iptables-nft" : "iptables-legacy";
      assert.equal(choice.programs.IPv4, family);
    });
  }

  it("causes a warning if both have rules, and only then", () => {
    const one = { ...none, ruleCount: 1 };
    const both = pickBackend({ nft: one, legacy: { ...none, ruleCount: 7 }, standard: "nft" });
    assert.match(both.warning ?? "", /legacy 7, nft 1/);
    const single = pickBackend({ nft: one, legacy: none, standard: "nft" });
    assert.equal(single.warning, undefined);
  });

  it("is reported together with the unused backend if that contains any chains or rules", () => {
    const one = { ...none, ruleCount: 2 };
    const surveys = { nft: one, standard: "nft" } as const;
    assert.equal(pickBackend({ ...surveys, legacy: none }).unused, undefined);
    assert.equal(pickBackend({ ...surveys, legacy: absent }).unused, undefined);
    for (const legacy of [
      { ...none, ruleCount: 1 },
      { ...none, hasChains: true },
    ]) {
      const { unused } = pickBackend({ ...surveys, legacy });
      assert.equal(unused?.backend, "legacy");
      assert.equal(unused.programs.IPv6, "ip6tables-legacy");
    }
  });

  it("uses programs without a backend in their name if there are no others", () => {
    const choice = pickBackend({ nft: absent, legacy: absent, standard: "legacy" });
    assert.deepEqual(choice.programs, { IPv4: "iptables", IPv6: "ip6tables" });
  });

  it("is an error with what to install if iptables is missing", () => {
    const surveys = { nft: absent, legacy: absent, standard: undefined };
    assert.throws(() => pickBackend(surveys), /install the iptables package/);
  });

  it("is chosen by the rules of both families and by kubelet's chains in all tables", async () => {
    const { run, calls } = programs({
      "iptables-nft-save": { output: "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n" },
      "ip6tables-nft-save": { output: "" },
      "iptables-legacy-save": { output: "*nat\n:A - [0:0]\n-A A -j DROP\nCOMMIT\n" },
      "ip6tables-legacy-save": { output: "*nat\n:A - [0:0]\n-A A -j DROP\nCOMMIT\n" },
      iptables: { output: "iptables v1.8.9 (legacy)\n" },
    });
    const choice = await chooseBackend(run);
    assert.equal(choice.backend, "nft");
    assert.equal(choice.warning, undefined);
    assert.deepEqual(
      calls.map(({ program }) => program),
      [
        "iptables-nft-save",
        "ip6tables-nft-save",
        "iptables-legacy-save",
        "ip6tables-legacy-save",
        "iptables",
      ],
    );
    assert.ok(calls.every((call) => !call.arguments.includes("-t")));
  });

  for (const { table, name } of portalRules("IPv4", []).chains) {
    it(`reports that userspace mode left ${name} in ${table}`, async () => {
      const { run } = programs({
        "iptables-legacy-save": { output: `*${table}\n:${name} - [0:0]\nCOMMIT\n` },
      });
      assert.equal((await chooseBackend(run)).hasPortals, true);
    });
  }

  it("is that of `iptables --version` if nothing else decides", async () => {
    for (const [output, backend] of [
      ["iptables v1.8.9 (nf_tables)", "nft"],
      ["iptables v1.8.9 (legacy)", "legacy"],
      ["iptables v1.6.1", "legacy"],
    ] as const) {
      const { run } = programs({ iptables: { output } });
      assert.equal((await chooseBackend(run)).backend, backend);
    }
  });

  it("is not treated as empty if its program fails once, or after it printed rules", async () => {
    const failed = { exitCode: 4, errorOutput: "No buffer space available" };
    const kubelet = "*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n";
    for (const answers of [[failed, { output: kubelet }], [{ ...failed, output: kubelet }]]) {
      const { run } = programs({
        "iptables-nft-save": answers,
        "ip6tables-nft-save": { output: "" },
        "iptables-legacy-save": { output: "*nat\n:A - [0:0]\n-A A -j DROP\nCOMMIT\n" },
      });
      assert.equal((await chooseBackend(run)).backend, "nft");
    }
  });

  it("is treated as empty if its rules cannot be printed", async () => {
    const { run } = programs({
      "iptables-nft-save": { exitCode: 1, errorOutput: "no kernel support" },
      "iptables-legacy-save": { output: "*nat\n:A - [0:0]\n-A A -j DROP\nCOMMIT\n" },
      iptables: { output: "iptables v1.8.9 (nf_tables)" },
    });
    assert.equal((await chooseBackend(run)).backend, "legacy");
  });

  it("is an error if a program hangs", async () => {
    const { run } = programs({
      "iptables-nft-save": new ProgramError("iptables-nft-save", "timed-out", "too slow"),
    });
    await assert.rejects(chooseBackend(run), /too slow/);
  });
});
