/** Commands in guides and README: their flags, targets and files exist. What a node or a cluster is needed for is run in the lab. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parseCommandLine } from "../../../src/cli/command-line.ts";
import { argumentsOf, commandsOf } from "../../support/documents/guide-commands.ts";
import { readGuides, shellBlocksOf } from "../../support/documents/guides.ts";

const project = join(import.meta.dirname, "../../..");
const makefile = readFileSync(join(project, "Makefile"), "utf8");
const pages = [
  { path: "../README.md", text: readFileSync(join(project, "README.md"), "utf8") },
  ...readGuides(),
];

/** What our own program says about the arguments; undefined: it takes them. */
function mistakeIn(args: readonly string[]): string | undefined {
  const line = parseCommandLine(args.filter((argument) => argument !== "…"));
  return line.kind === "mistake" ? `kube-ipvs ${args.join(" ")}: ${line.message}` : undefined;
}

const filePath = /(?<![\w./-])(?:deploy|docs|test)\/[\w./-]+(?![\w./[-])/g;

/** Targets of a `make` that do not exist. */
function missingTargets(args: readonly string[]): readonly string[] {
  return args
    .filter((argument) => /^[a-z-]+$/.test(argument))
    .filter((target) => !new RegExp(`^${target}:`, "m").test(makefile));
}

describe("commands in a guide", () => {
  for (const { path, text } of pages) {
    const commands = commandsOf(text);

    it(`have valid flags: docs/${path}`, () => {
      const calls = commands.flatMap((command) => argumentsOf("kube-ipvs", command));
      assert.deepEqual(
        calls.map(mistakeIn).filter((mistake) => mistake !== undefined),
        [],
      );
    });

    it(`name targets and files that exist: docs/${path}`, () => {
      const targets = commands.flatMap((command) => argumentsOf("make", command));
      assert.deepEqual(targets.flatMap(missingTargets), []);
      const files = commands.flatMap((command) => command.match(filePath) ?? []);
      assert.deepEqual(
        files.filter((file) => !existsSync(join(project, file))),
        [],
      );
    });

    it(`are valid shell: docs/${path}`, () => {
      const script = shellBlocksOf(text).join("\n");
      const { status, stderr } = spawnSync("sh", ["-n"], { input: script, encoding: "utf8" });
      assert.equal(status, 0, stderr);
    });
  }

  it("would fail the test with an unknown flag or target", () => {
    const [call = []] = argumentsOf(
      "kube-ipvs",
      "kubectl exec POD -- kube-ipvs status --no-such | cat",
    );
    assert.deepEqual(call, ["status", "--no-such"]);
    assert.match(mistakeIn(call) ?? "", /--no-such/);
    assert.deepEqual(missingTargets(["no-such", "A=1"]), ["no-such"]);
  });
});
