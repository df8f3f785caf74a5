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

const wall = "lint/style/noRestrictedImports";
const imports = (from: string): string => `import type { a } from "${from}";\nexport type B = a;\n`;

const cases: readonly Planted[] = [
  { folder: "plan", code: imports("../kernel/kernel.ts"), rule: wall },
  { folder: "plan", code: imports("../netlink/transport.ts"), rule: wall },
  { folder: "plan", code: imports("../reconcile/diff.ts"), rule: wall },
  { folder: "plan", code: imports("../api/decode/service.ts"), rule: wall },
  { folder: "plan", code: imports("node:fs"), rule: wall },
  { folder: "plan", code: imports("yaml"), rule: wall },
  { folder: "plan", code: imports("node:util") },
  { folder: "plan", code: imports("../model/topology.ts") },
  { folder: "plan", code: imports("../state/rule.ts") },
  { folder: "plan", code: imports("./sets.ts") },
  { folder: "userspace", code: imports("../kernel/ipvs/client.ts"), rule: wall },
  { folder: "userspace", code: imports("../plan/planner.ts") },
  { folder: "userspace", code: imports("../kernel/kernel.ts") },
  { folder: "userspace", code: imports("node:net") },
  { folder: "model", code: imports("../userspace/balancer.ts"), rule: wall },
  { folder: "endpoint-slices", code: imports("../api/objects.ts"), rule: wall },
  { folder: "endpoint-slices", code: imports("node:crypto"), rule: wall },
  { folder: "endpoint-slices", code: imports("node:util") },
  { folder: "endpoint-slices", code: imports("../base/ip.ts") },
  { folder: "endpoint-controller", code: imports("../model/topology.ts"), rule: wall },
  { folder: "endpoint-controller", code: imports("../api/connection.ts") },
  { folder: "model", code: imports("../endpoint-slices/objects.ts"), rule: wall },
  { folder: "model", code: imports("../plan/planner.ts"), rule: wall },
  { folder: "model", code: imports("node:crypto"), rule: wall },
  { folder: "model", code: imports("../api/objects.ts") },
  { folder: "state", code: imports("../model/endpoints.ts"), rule: wall },
  { folder: "state", code: imports("../base/ip.ts") },
  { folder: "base", code: imports("../state/rule.ts"), rule: wall },
  { folder: "base", code: imports("node:net"), rule: wall },
  { folder: "reconcile", code: imports("../kernel/ipvs/client.ts"), rule: wall },
  { folder: "reconcile", code: imports("../api/objects.ts"), rule: wall },
  { folder: "reconcile", code: imports("node:timers"), rule: wall },
  { folder: "reconcile", code: imports("../kernel/kernel.ts") },
  { folder: "netlink", code: imports("../kernel/ipvs/codec.ts"), rule: wall },
  { folder: "netlink", code: imports("netlink"), rule: wall },
  { folder: "netlink", code: imports("netlink/dist/constants.js") },
  { folder: "netlink", code: imports("../../native-shim/index.ts") },
  { folder: "kernel/ipvs", code: imports("../../api/objects.ts"), rule: wall },
  { folder: "kernel/ipvs", code: imports("../../model/endpoints.ts"), rule: wall },
  { folder: "kernel/ipvs", code: imports("../../plan/planner.ts"), rule: wall },
  { folder: "kernel/ipvs", code: imports("netlink/dist/constants.js"), rule: wall },
  { folder: "kernel/ipvs", code: imports("../../netlink/transport.ts") },
  { folder: "kernel/iptables", code: imports("execa") },
  { folder: "kernel/iptables", code: imports("../../../native-shim/legacy-table.ts") },
  { folder: "kernel", code: imports("../../native-shim/index.ts"), rule: wall },
  { folder: "api", code: imports("../model/endpoints.ts"), rule: wall },
  { folder: "api", code: imports("execa"), rule: wall },
  { folder: "api", code: imports("@kubernetes/client-node") },
  { folder: "config", code: imports("../plan/options.ts"), rule: wall },
  { folder: "metrics", code: imports("../daemon/run.ts"), rule: wall },
  { folder: "metrics", code: imports("prom-client") },
  { folder: "daemon", code: imports("../cli/program.ts"), rule: wall },
  { folder: "daemon", code: imports("../main.ts"), rule: wall },
  { folder: "daemon", code: imports("../../test/support/objects.ts"), rule: wall },
  { folder: "daemon", code: imports("../doctor/doctor.ts"), rule: wall },
  { folder: "kernel", code: imports("../doctor/doctor.ts"), rule: wall },
  { folder: "doctor", code: imports("../reconcile/reconciler.ts"), rule: wall },
  { folder: "doctor", code: imports("../kernel/open-readers.ts") },
  { folder: "doctor/checks", code: imports("../read/mounts.ts"), rule: wall },
  { folder: "doctor/checks", code: imports("../open-node.ts"), rule: wall },
  { folder: "doctor/checks", code: imports("node:fs"), rule: wall },
  { folder: "doctor/checks", code: imports("../node.ts") },
  { folder: "explain", code: imports("../reconcile/reconciler.ts"), rule: wall },
  { folder: "answer", code: imports("../daemon/operator/routes.ts"), rule: wall },
  { folder: "answer", code: imports("../state/traffic.ts") },
  { folder: "explain", code: imports("../kernel/open-readers.ts") },
  { folder: "explain/packet", code: imports("../read/read-network.ts"), rule: wall },
  { folder: "explain/packet", code: imports("../../plan/sets.ts"), rule: wall },
  { folder: "daemon", code: imports("../explain/explain.ts"), rule: wall },
  { folder: "top", code: imports("../reconcile/reconciler.ts"), rule: wall },
  { folder: "top", code: imports("../kernel/open-readers.ts") },
  { folder: "kernel", code: imports("../top/rows.ts"), rule: wall },
  { folder: "sysdump", code: imports("../daemon/start.ts"), rule: wall },
  { folder: "sysdump", code: imports("../kernel/open-readers.ts") },
  { folder: "e2e", code: imports("../kernel/kernel.ts"), rule: wall },
  { folder: "e2e", code: imports("../daemon/start.ts"), rule: wall },
  { folder: "e2e", code: imports("../answer/answers.ts") },
  { folder: "e2e", code: imports("@kubernetes/client-node") },
  { folder: "daemon", code: imports("../e2e/run.ts"), rule: wall },
  { folder: "cli", code: imports("../kernel/kernel.ts"), rule: wall },
  { folder: "cli", code: imports("commander") },
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
  { folder: "plan", code: imports("./planted-0"), rule: "lint/correctness/useImportExtensions" },
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
