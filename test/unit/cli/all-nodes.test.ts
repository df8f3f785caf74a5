/** Tests the tables of many nodes' answers, if one of the nodes has a different version. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodesText } from "../../../src/cli/across-nodes.ts";

const row = {
  ...{ namespace: "shop", name: "web", protocol: "TCP", address: "10.96.0.2", port: 80 },
  ...{ scheduler: "rr", affinitySeconds: 0 },
  realServers: { planned: 2, programmed: 2, draining: 0 },
};
const { realServers: _, ...otherRow } = row;
const finding = { name: "b", verdict: "warn", evidence: "two" };

/** Answers of this version and of a different one, and what the line of the first one contains. */
const answers: readonly (readonly [command: string, known: object, other: object, RegExp])[] = [
  ["services", { items: [row] }, { items: [otherRow] }, /^n2 +shop +web .* 2\/2/m],
  [
    "status",
    { verdict: "OK", summary: "OK, 1 Service" },
    { verdict: "OK" },
    /^n2 +OK .*1 Service$/m,
  ],
  ["status", { verdict: "OK", summary: "OK, x" }, { versions: 1, mode: 1 }, /^n2 +OK .* x$/m],
  ["doctor", { verdict: "warn", checks: [finding] }, { verdict: "warn" }, /^n2 +warn +b +two$/m],
  ["drains", { items: [] }, { items: [{}] }, /^n1 /m],
  ["explain", { items: [{ verdict: "lost", summary: "Lost" }] }, {}, /^n2 +lost +Lost$/m],
];

describe("an answer of a different version among the answers of many nodes", () => {
  for (const [command, known, other, wanted] of answers) {
    it(`is one line of ${command} ${JSON.stringify(other)}, and the other nodes' lines remain`, () => {
      const input = `= n1 0\n|${JSON.stringify(other)}\n= n2 0\n|${JSON.stringify(known)}\n`;
      const { text } = nodesText(command, input, "text", undefined);
      assert.match(text, wanted);
      assert.match(text, /^n1 .* the answer is from a different version of kube-ipvs/m);
    });
  }

  it("is one line of compare", () => {
    const kind = { kind: "NodeServices", time: "2026-01-02T03:04:05Z", problems: [], history: [] };
    const sections = ["rr", "rr", "wlc"].map((scheduler, index) => {
      const answer = { ...kind, items: [{ ...row, scheduler }] };
      return `= n${index + 2} 0\n|${JSON.stringify(answer)}\n`;
    });
    const other = { ...kind, items: [{ ...row, address: undefined }] };
    const input = [`= n1 0\n|${JSON.stringify(other)}\n`, ...sections].join("");
    const { text } = nodesText("compare", input, "text", undefined);
    assert.match(text, /^n1 .* the answer is from a different version/m);
    assert.match(text, /^n4 .* has scheduler wlc$/m);
  });
});

describe("doctor on many nodes", () => {
  it("warns about nodes whose daemon has a different version than most daemons", () => {
    const report = (version: string, more: readonly object[] = []): string => {
      const checks = [
        { name: "version", verdict: "ok", evidence: `kube-ipvs ${version} is running` },
        ...more,
      ];
      return JSON.stringify({ verdict: more.length === 0 ? "ok" : "warn", checks });
    };
    const input = [
      `= n1 0\n|${report("0.2.0")}\n`,
      `= n2 0\n|${report("0.1.0")}\n`,
      `= n3 2\n|${report("0.2.0", [finding])}\n`,
      "= n4 1\n!no answer\n",
    ].join("");
    const { text, exitCode } = nodesText("doctor", input, "text", undefined);
    assert.equal(exitCode, 2);
    assert.deepEqual(
      text
        .trimEnd()
        .split("\n")
        .slice(1)
        .map((line) => line.replaceAll(/ +/g, " ")),
      [
        "n1 ok all 1 checks are ok",
        "n2 warn version kube-ipvs 0.1.0 is running, but most nodes run 0.2.0",
        "n3 warn b two",
        "n4 - - no answer",
      ],
    );
    const same = `= n1 0\n|${report("0.2.0")}\n= n2 0\n|${report("0.2.0")}\n`;
    assert.equal(nodesText("doctor", same, "text", undefined).exitCode, 0);
  });
});
