import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";

const root = join(import.meta.dirname, "../../..");
const onlyPlace = "src/netlink/netlink-package.ts";
/** The package's modules that do not use a socket: constants and codecs. */
const allowedParts = ["constants.js", "genl/structs.js", "rt/structs.js"];

/** The modules that a source imports from the package with `from`, `import()` or `require()`. */
function packageImports(source: string): string[] {
  const pattern = /(?:from\s+|import\s*\(?\s*|require\s*\(\s*)["'](netlink(?:\/[^"']*)?)["']/g;
  return [...source.matchAll(pattern)].map((match) => match[1] ?? "");
}

describe("the npm package netlink", () => {
  const sources = globSync("{src,native-shim}/**/*.ts", { cwd: root });

  it("is imported in one place, and only its parts without a socket", () => {
    const imports = sources.flatMap((path) =>
      packageImports(readFileSync(join(root, path), "utf8")).map((name) => ({ path, name })),
    );
    assert.ok(imports.length > 0);
    for (const { path, name } of imports) {
      assert.equal(path, onlyPlace);
      assert.ok(
        allowedParts.some((part) => name === `netlink/dist/${part}`),
        `${name} in ${path}`,
      );
    }
  });

  it("does not load its socket addon through the imported modules", () => {
    const script = `
      const { createRequire } = await import("node:module");
      await import(${JSON.stringify(join(root, "src/kernel/ipvs/client.ts"))});
      await import(${JSON.stringify(join(root, onlyPlace))});
      const loaded = Object.keys(createRequire(import.meta.url).cache);
      console.log(JSON.stringify(loaded.filter((path) => path.includes("/node_modules/netlink/"))));
      console.log(JSON.stringify(process.report.getReport().sharedObjects.filter((path) => path.endsWith(".node"))));
    `;
    const output = execFileSync(process.execPath, ["--input-type=module", "-e", script], {
      encoding: "utf8",
    });
    const [modules = "[]", addons = ""] = output.trim().split("\n");
    const files = (JSON.parse(modules) as string[]).map((path) => path.split("/netlink/dist/")[1]);
    assert.deepEqual(files.sort(), ["constants.js", "genl/structs.js", "structs.js"]);
    assert.equal(addons, "[]");
  });

  it("is detected in every form of import", () => {
    const ways = [
      'import { x } from "netlink";',
      'import "netlink";',
      'await import("netlink/dist/index.js")',
      "require('netlink/dist/raw.js')",
    ];
    assert.deepEqual(ways.flatMap(packageImports), [
      "netlink",
      "netlink",
      "netlink/dist/index.js",
      "netlink/dist/raw.js",
    ]);
  });
});
