/**
 * Creates files with one fault each, and runs the linter with this project's rules. It must find each fault and no
 * others.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, describe, it } from "node:test";

const project = join(import.meta.dirname, "../../..");

interface Planted {
  /** Folder under src/. */
  readonly folder: string;
  readonly code: string;
  /** The rule that must report a problem. Undefined if no rule may. */
  readonly rule?: string;
}

const cases: readonly Planted[] = [
  {
    folder: "model",
    code: "export const at: number = Date.now();\n",
    rule: "lint/style/noRestrictedGlobals",
  },
  { folder: "api", code: 'export const value: unknown = JSON.parse("1");\n', rule: "plugin" },
  {
    folder: "daemon",
    code: 'export function listen(): void {\n  process.on("exit", async () => {\n    await Promise.resolve();\n  });\n}\n',
    rule: "plugin",
  },
  {
    folder: "daemon",
    code: "export async function late(): Promise<void> {}\nexport function go(): void {\n  late();\n}\n",
    rule: "lint/nursery/noFloatingPromises",
  },
  {
    folder: "daemon",
    code: "export function each(all: number[]): void {\n  all.forEach((one) => {\n    all.push(one);\n  });\n}\n",
    rule: "lint/complexity/noForEach",
  },
  {
    folder: "state",
    code: 'export function name(kind: "a" | "b"): number {\n  switch (kind) {\n    case "a":\n      return 1;\n  }\n  return 2;\n}\n',
    rule: "lint/nursery/useExhaustiveSwitchCases",
  },
  {
    folder: "model",
    code: 'import type { a } from "./planted-0";\nexport type B = a;\n',
    rule: "lint/correctness/useImportExtensions",
  },
  {
    folder: "cli",
    code: 'export function say(): void {\n  console.log("hi");\n}\n',
    rule: "lint/suspicious/noConsole",
  },
];

/** The rules that report a problem in each file, from a single run over all files. */
function lint(root: string): ReadonlyMap<string, readonly string[]> {
  const biome = join(project, `node_modules/@biomejs/cli-linux-${process.arch}/biome`);
  const flags = ["lint", "--vcs-enabled=false", "--reporter=json", "--max-diagnostics=none"];
  const { stdout } = spawnSync(biome, flags, { cwd: root, encoding: "utf8" });
  const report = JSON.parse(stdout) as {
    diagnostics: { category: string; location: { path: string } }[];
  };
  const rulesByFile = new Map<string, string[]>();
  for (const { category, location } of report.diagnostics) {
    const rules = rulesByFile.get(location.path) ?? [];
    rulesByFile.set(location.path, [...rules, category]);
  }
  return rulesByFile;
}

describe("the linter", () => {
  const root = mkdtempSync(join(tmpdir(), "kube-ipvs-lint-"));
  after(() => rmSync(root, { recursive: true, force: true }));

  for (const name of ["biome.json", "package.json", "toolchain/lint"]) {
    cpSync(join(project, name), join(root, name), { recursive: true });
  }
  const paths = cases.map(({ folder }, index) => `src/${folder}/planted-${index}.ts`);
  for (const [index, { code }] of cases.entries()) {
    const path = join(root, paths[index] ?? "");
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, code);
  }
  const found = lint(root);

  for (const [index, { folder, code, rule }] of cases.entries()) {
    const what = code.split("\n")[0];
    it(`${rule === undefined ? "allows" : "rejects"} in ${folder}/: ${what}`, () => {
      assert.deepEqual(found.get(paths[index] ?? "") ?? [], rule === undefined ? [] : [rule]);
    });
  }
});
