import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parseSaved } from "../../../../src/kernel/iptables/parse.ts";

const scenarios = join(import.meta.dirname, "../../../golden/scenarios");

describe("the rules of the recorded states", () => {
  it("are all read, line by line", () => {
    let count = 0;
    const paths = readdirSync(scenarios, { recursive: true, encoding: "utf8" });
    for (const path of paths.filter((name) => /\/ip6?tables\.txt$/.test(name))) {
      const text = readFileSync(join(scenarios, path), "utf8");
      // Recorded per table, without COMMIT.
      const chains = parseSaved(`${text.replace("*nat", "COMMIT\n*nat")}COMMIT\n`);
      const read = chains.flatMap(({ name, rules }) =>
        rules.map((rule) => `-A ${name} ${rule.text}`),
      );
      const recorded = text.split("\n").filter((line) => line.startsWith("-A "));
      assert.deepEqual(read.sort(), recorded.sort(), path);
      count += read.length;
    }
    assert.ok(count > 7_000, `${count} rules`);
  });
});
