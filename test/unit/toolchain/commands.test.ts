/** Tests the commands in the Makefile and package.json. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";

const project = join(import.meta.dirname, "../../..");
const read = (path: string): string => readFileSync(join(project, path), "utf8");
const makefile = read("Makefile");
const targets = new Set([...makefile.matchAll(/^([a-z][a-z0-9-]*):/gm)].map(([, name]) => name));

const help = execFileSync("awk", ["-f", "toolchain/help.awk", "Makefile"], {
  cwd: project,
  encoding: "utf8",
}).trimEnd();

describe("make help", () => {
  it("prints two aligned columns that fit 80 characters", () => {
    for (const line of help.split("\n")) {
      assert.ok(line.length <= 80, line);
      assert.match(line, /^(?: {2}make [a-z0-9-]+ +| {24})(?<=^.{24})\S/);
    }
  });

  it("lists every target that has a description", () => {
    const described = [...makefile.matchAll(/^([a-z][a-z0-9-]*):.* ## /gm)].map(([, name]) => name);
    const listed = [...help.matchAll(/^ {2}make (\S+)/gm)].map(([, name]) => name);
    assert.deepEqual(listed, described);
    assert.ok(listed.includes("test") && listed.includes("e2e"));
  });
});

describe("package.json", () => {
  const { scripts, bin } = JSON.parse(read("package.json")) as Readonly<
    Record<"scripts" | "bin", Readonly<Record<string, string>>>
  >;

  it("has scripts that call targets of the Makefile", () => {
    for (const name of ["test", "check", "build"]) assert.equal(scripts[name], `make ${name}`);
    for (const script of Object.values(scripts))
      assert.ok(targets.has(script.slice("make ".length)));
  });

  it("lists the programs that make build writes", () => {
    const bundle = read("toolchain/bundle.ts");
    for (const [name, path] of Object.entries(bin)) {
      assert.equal(path, `dist/${name}`);
      assert.ok(bundle.includes(`"${name}": "`), name);
    }
  });
});
