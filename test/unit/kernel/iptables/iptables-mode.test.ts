import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type BackendChoice, chooseBackend } from "../../../../src/kernel/iptables/backend.ts";
import { IptablesClient } from "../../../../src/kernel/iptables/client.ts";
import {
  findLeftoverChains,
  planLeftoverRemoval,
} from "../../../../src/kernel/iptables/iptables-mode.ts";
import { iptablesModeRules } from "../../../support/iptables-mode.ts";
import { programs } from "../programs.ts";

const leftovers = [
  "mangle KUBE-PROXY-CANARY",
  "nat KUBE-EXT-ZNLZPHNJPSNFOWJC",
  "nat KUBE-FW-ZNLZPHNJPSNFOWJC",
  "nat KUBE-NODEPORTS",
  "nat KUBE-PROXY-CANARY",
  "nat KUBE-SEP-6E37RDV4FITU7CIU",
  "nat KUBE-SVC-ZNLZPHNJPSNFOWJC",
  "nat KUBE-SVL-ZNLZPHNJPSNFOWJC",
  "filter KUBE-EXTERNAL-SERVICES",
  "filter KUBE-NODEPORTS",
  "filter KUBE-PROXY-CANARY",
  "filter KUBE-SERVICES",
];

/** As our first sync leaves them: KUBE-SERVICES in nat is ours. */
const afterSync = iptablesModeRules.replaceAll(
  /^-A KUBE-SERVICES -.* -j KUBE-(?:SVC|NODE).*\n/gm,
  "",
);

/** Lines of the input in one table. */
function linesOf(input: string, table: string): readonly string[] {
  const text = input.split("*").find((part) => part.startsWith(`${table}\n`)) ?? "";
  return text.split("\n").slice(1, -2);
}

describe("chains of kube-proxy's mode iptables", () => {
  it("are those that no other mode makes, and none of kubelet's", () => {
    assert.deepEqual(findLeftoverChains(iptablesModeRules), leftovers);
  });

  it("are not those of others that merely begin alike", () => {
    const chains = ["KUBE-SVC-SHORT", "KUBE-FW-", "KUBE-POD-FW-ZNLZPHNJPSNFOWJC", "KUBE-FIREWALL"];
    const saved = `*nat\n${chains.map((name) => `:${name} - [0:0]\n`).join("")}COMMIT\n`;
    assert.deepEqual(findLeftoverChains(saved), []);
  });

  it("go with the jumps to them, and with those to the firewall that mode ipvs does not make", () => {
    const { input, removedCount, kept } = planLeftoverRemoval(afterSync, new Set());
    assert.deepEqual(
      linesOf(input, "filter").filter((line) => line.startsWith("-D")),
      [
        '-D INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL',
        '-D INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS',
        '-D INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES',
        '-D FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL',
        '-D FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
        '-D FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES',
        '-D OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL',
        '-D OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
      ],
    );
    const removed = [...input.matchAll(/^\*(\S+)|^-X (\S+)$/gm)];
    assert.equal(removed.filter(([, table]) => table === undefined).length, leftovers.length);
    assert.deepEqual([removedCount, kept], [leftovers.length + 8, []]);
    assert.doesNotMatch(input, /^(?:-X|:)\s?KUBE-(?:MARK|FIRE|FORW|POST|IPT|KUBELET|PROXY-F)/m);
  });

  it("are emptied before the first of them is removed, since they lead to each other", () => {
    const lines = linesOf(planLeftoverRemoval(afterSync, new Set()).input, "nat");
    const lastFlush = lines.findLastIndex((line) => line.startsWith(":"));
    assert.ok(lastFlush < lines.findIndex((line) => line.startsWith("-X")));
  });

  it("stay where a chain of both modes still leads to them, with what they lead to", () => {
    const { kept } = planLeftoverRemoval(iptablesModeRules, new Set());
    assert.deepEqual(kept.toSorted(), [
      "nat KUBE-EXT-ZNLZPHNJPSNFOWJC",
      "nat KUBE-NODEPORTS",
      "nat KUBE-SEP-6E37RDV4FITU7CIU",
      "nat KUBE-SVC-ZNLZPHNJPSNFOWJC",
    ]);
  });

  it("go at clean-up, which empties that chain", () => {
    const { input, kept } = planLeftoverRemoval(
      iptablesModeRules,
      new Set(["nat KUBE-SERVICES", "nat KUBE-MARK-MASQ"]),
    );
    assert.deepEqual(kept, []);
    const lines = linesOf(input, "nat");
    assert.ok(lines.includes(":KUBE-SERVICES - [0:0]"));
    assert.ok(!lines.includes("-X KUBE-SERVICES") && !lines.includes(":KUBE-MARK-MASQ - [0:0]"));
  });

  it("stay where a rule of others leads to them; words in a comment lead nowhere", () => {
    const others = [
      "-A OTHERS -j KUBE-SEP-6E37RDV4FITU7CIU",
      '-A OTHERS -m comment --comment "or -j KUBE-SVC-ZNLZPHNJPSNFOWJC" -j RETURN',
    ].join("\n");
    const saved = afterSync.replace("*nat\n", "*nat\n:OTHERS - [0:0]\n");
    const { kept, input } = planLeftoverRemoval(
      saved.replace("-A PREROUTING", `${others}\n-A PREROUTING`),
      new Set(),
    );
    assert.deepEqual(kept, ["nat KUBE-SEP-6E37RDV4FITU7CIU"]);
    assert.doesNotMatch(input, /KUBE-SEP/);
  });

  it("are nothing to do in tables that have none", () => {
    assert.deepEqual(planLeftoverRemoval("*nat\n:INPUT ACCEPT [0:0]\nCOMMIT\n", new Set()), {
      input: "",
      removedCount: 0,
      kept: [],
    });
  });
});

describe("the check of the backends", () => {
  it("finds them in both, without a program more", async () => {
    const { run } = programs({
      "iptables-nft-save": { output: "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n" },
      "ip6tables-nft-save": { output: "*nat\n:KUBE-PROXY-CANARY - [0:0]\nCOMMIT\n" },
      "iptables-legacy-save": { output: iptablesModeRules },
    });
    const choice = await chooseBackend(run);
    assert.deepEqual([...(choice.leftovers ?? [])], [["IPv6", ["nat KUBE-PROXY-CANARY"]]]);
    assert.deepEqual([...(choice.unused?.leftovers ?? [])], [["IPv4", leftovers]]);
  });
});

describe("the client of mode iptables", () => {
  const choice: BackendChoice = {
    backend: "nft",
    reason: "",
    programs: { IPv4: "iptables-nft", IPv6: "ip6tables-nft" },
    leftovers: new Map([["IPv4", leftovers]]),
  };

  it("reads, and removes with one restore that leaves everything else", async () => {
    const { run, calls } = programs({
      "iptables-nft-save": { output: afterSync },
      "iptables-nft-restore": {},
    });
    const client = new IptablesClient({ runProgram: run }, choice);
    const { removedCount } = await client.removeLeftovers("IPv4", new Set());
    assert.equal(removedCount, leftovers.length + 8);
    assert.deepEqual(
      calls.map(({ program, arguments: options }) => [program, ...options].join(" ")),
      ["iptables-nft-save", "iptables-nft-restore -w 5 --noflush --counters"],
    );
  });

  it("writes nothing where they are gone by now", async () => {
    const { run, calls } = programs({ "iptables-nft-save": { output: "" } });
    await new IptablesClient({ runProgram: run }, choice).removeLeftovers("IPv4", new Set());
    assert.equal(calls.length, 1);
  });

  it("says what it could not do", async () => {
    const { run } = programs({
      "iptables-nft-save": { output: afterSync },
      "iptables-nft-restore": {
        exitCode: 4,
        errorOutput: "Another app is holding the xtables lock",
      },
    });
    await assert.rejects(
      new IptablesClient({ runProgram: run }, choice).removeLeftovers("IPv4", new Set()),
      /remove rules of mode iptables.*xtables lock/s,
    );
  });
});
