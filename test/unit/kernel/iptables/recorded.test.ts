import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { IpFamily } from "../../../../src/base/ip.ts";
import { parseSaved } from "../../../../src/kernel/iptables/parse.ts";
import { renderRule } from "../../../../src/kernel/iptables/render.ts";

const scenarios = join(import.meta.dirname, "../../../golden/scenarios");
const families = { "iptables.txt": "IPv4", "ip6tables.txt": "IPv6" } as const;

/** Rules that scenarios put there as another program's; one of them is none of our forms. */
const foreign = ["-d 5.6.7.8/32 -j ACCEPT"];

function recordedFiles(): readonly { readonly path: string; readonly family: IpFamily }[] {
  const paths = readdirSync(scenarios, { recursive: true, encoding: "utf8" });
  return Object.entries(families).flatMap(([name, family]) =>
    paths.filter((path) => path.endsWith(`/${name}`)).map((path) => ({ path, family })),
  );
}

describe("the rules of the recorded states", () => {
  it("are all read as values that render to the same text", () => {
    let count = 0;
    for (const { path, family } of recordedFiles()) {
      const text = readFileSync(join(scenarios, path), "utf8");
      // Recorded per table, without COMMIT.
      const saved = `${text.replace("*nat", "COMMIT\n*nat")}COMMIT\n`;
      for (const { rules } of parseSaved(family, saved)) {
        for (const observed of rules) {
          count += 1;
          if (foreign.includes(observed.text)) continue;
          assert.ok(observed.rule, `${path}: ${observed.text}`);
          assert.equal(renderRule(family, observed.rule), observed.text);
        }
      }
    }
    assert.ok(count > 7_000, `${count} rules`);
  });
});
