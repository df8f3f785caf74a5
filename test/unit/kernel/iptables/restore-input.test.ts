import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RuleValueError } from "../../../../src/kernel/iptables/names.ts";
import { renderRestoreInput } from "../../../../src/kernel/iptables/restore-input.ts";
import type { RuleChange } from "../../../../src/kernel/kernel.ts";
import type { Jump, Rule, TableName } from "../../../../src/state/rule.ts";

const drop: Rule = { matches: [], target: { kind: "drop" } };

function jump(table: TableName, from: string, chain: string): Jump {
  return { table, from, rule: { matches: [], target: { kind: "jump", chain } } };
}

function write(table: TableName, name: string, ...rules: readonly Rule[]): RuleChange {
  return { kind: "chain-write", chain: { table, name, rules } };
}

function lines(changes: readonly RuleChange[]): readonly string[] {
  return renderRestoreInput("IPv4", changes).split("\n");
}

describe("iptables-restore input", () => {
  it("contains its tables in a fixed order, filter first, each with its COMMIT", () => {
    assert.deepEqual(lines([write("mangle", "C"), write("filter", "B", drop), write("nat", "A")]), [
      "*filter",
      ":B - [0:0]",
      "-A B -j DROP",
      "COMMIT",
      "*nat",
      ":A - [0:0]",
      "COMMIT",
      "*mangle",
      ":C - [0:0]",
      "COMMIT",
      "",
    ]);
  });

  it("omits a table that does not change", () => {
    assert.doesNotMatch(renderRestoreInput("IPv4", [write("filter", "B")]), /nat/);
    assert.equal(renderRestoreInput("IPv4", []), "");
  });

  it("declares every chain before the first rule, in descending name order", () => {
    const toB: Rule = { matches: [], target: { kind: "jump", chain: "B" } };
    assert.deepEqual(lines([write("nat", "A", toB), write("nat", "B", drop)]), [
      "*nat",
      ":B - [0:0]",
      ":A - [0:0]",
      "-A A -j B",
      "-A B -j DROP",
      "COMMIT",
      "",
    ]);
  });

  it("changes jumps in the given order", () => {
    assert.deepEqual(
      lines([
        { kind: "jump-remove", jump: jump("filter", "INPUT", "A") },
        { kind: "jump-insert", jump: jump("filter", "INPUT", "A") },
        { kind: "jump-insert", jump: jump("filter", "INPUT", "B") },
      ]),
      ["*filter", "-D INPUT -j A", "-I INPUT -j A", "-I INPUT -j B", "COMMIT", ""],
    );
  });

  it("empties a chain before it removes it, and after the jump to it is removed", () => {
    assert.deepEqual(
      lines([
        { kind: "chain-remove", table: "filter", chainName: "A" },
        { kind: "jump-remove", jump: jump("filter", "INPUT", "A") },
      ]),
      ["*filter", ":A - [0:0]", "-D INPUT -j A", "-X A", "COMMIT", ""],
    );
  });

  it("applies the last change to a chain", () => {
    const removal: RuleChange = { kind: "chain-remove", table: "nat", chainName: "A" };
    assert.deepEqual(lines([removal, write("nat", "A", drop)]).slice(1, 4), [
      ":A - [0:0]",
      "-A A -j DROP",
      "COMMIT",
    ]);
  });

  it("rejects names that would be commands", () => {
    const names = ["A\nCOMMIT", "A B", "-F", "", "X".repeat(29)];
    for (const name of names) {
      assert.throws(() => lines([write("nat", name)]), RuleValueError);
      assert.throws(
        () => lines([{ kind: "jump-insert", jump: jump("nat", name, "A") }]),
        RuleValueError,
      );
    }
  });
});
