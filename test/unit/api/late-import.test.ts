import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, it } from "node:test";

const api = join(import.meta.dirname, "../../../src/api");
const library = "@kubernetes/client-node";

/** Returns the modules that a file imports when it is loaded, excluding types and later imports. */
function importsOf(file: string): readonly string[] {
  const text = readFileSync(file, "utf8");
  const imports = text.matchAll(/^import (?!type )[^;]*? from "([^"]+)";/gms);
  return [...imports].map(([, from = ""]) => from);
}

function reachedFrom(file: string, seen: Set<string> = new Set<string>()): ReadonlySet<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  for (const from of importsOf(file)) {
    if (from.startsWith(".")) reachedFrom(resolve(dirname(file), from), seen);
    else seen.add(from);
  }
  return seen;
}

describe("the client library", () => {
  const files = readdirSync(api, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".ts"),
  );

  it("is imported by only one file", () => {
    const importing = files.filter((name) => importsOf(join(api, name)).includes(library));
    assert.deepEqual(importing, ["cluster/client-config.ts"]);
  });

  it("is not loaded by modules that the whole program imports", () => {
    for (const name of [
      "cluster/open-connection.ts",
      "cluster/cluster-source.ts",
      "manifest/manifest-source.ts",
    ]) {
      assert.equal(reachedFrom(join(api, name)).has(library), false, name);
    }
    assert.equal(reachedFrom(join(api, "cluster/client-config.ts")).has(library), true);
  });
});
