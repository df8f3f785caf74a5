import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseSaved } from "../../../../src/kernel/iptables/parse.ts";
import { listScenarios, readScenario } from "../../../golden/scenario.ts";

describe("the rules of the recorded states", () => {
  it("are all read line by line", () => {
    let count = 0;
    const states = listScenarios().flatMap((name) => readScenario(name).steps);
    for (const text of states.flatMap(({ recorded }) => [
      recorded.iptables ?? "",
      recorded.ip6tables ?? "",
    ])) {
      // Each table was recorded separately, without COMMIT.
      const chains = parseSaved(`${text.replace("*nat", "COMMIT\n*nat")}COMMIT\n`);
      const read = chains.flatMap(({ name, rules }) =>
        rules.map((rule) => `-A ${name} ${rule.text}`),
      );
      const recorded = text.split("\n").filter((line) => line.startsWith("-A "));
      assert.deepEqual(read.sort(), recorded.sort());
      count += read.length;
    }
    assert.ok(count > 7_000, `${count} rules`);
  });
});
