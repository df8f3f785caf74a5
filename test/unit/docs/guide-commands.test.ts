/**
 * Tests that flags, targets and files exist in the commands of guides and READMEs. The lab runs commands that need a
 * node or a cluster.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parseCommandLine } from "../../../src/cli/command-line.ts";
import { readOptions } from "../../../src/e2e/options.ts";
import { argumentsOf, commandsOf } from "../../support/documents/guide-commands.ts";
import { readGuides, shellBlocksOf } from "../../support/documents/guides.ts";

const project = join(import.meta.dirname, "../../..");
const makefile = readFileSync(join(project, "Makefile"), "utf8");
const pages = [
  ...["README.md", "deploy/README.md", "deploy/systemd/README.md"].map((path) => ({
    path: `../${path}`,
    text: readFileSync(join(project, path), "utf8"),
  })),
  ...readGuides(),
];
const [, rollOutUsage = ""] = readFileSync(join(project, "deploy/roll-out"), "utf8").split("END");

/** The error of kube-ipvs for these arguments. Undefined if it accepts them. */
function mistakeIn(args: readonly string[]): string | undefined {
  const line = parseCommandLine(args.filter((argument) => argument !== "…"));
  return line.kind === "mistake" ? `kube-ipvs ${args.join(" ")}: ${line.message}` : undefined;
}

/** The error of the acceptance test for these arguments. Undefined if it accepts them. */
function e2eMistakeIn(args: readonly string[]): string | undefined {
  try {
    readOptions(args, {});
    return undefined;
  } catch (error) {
    return `kube-ipvs-e2e ${args.join(" ")}: ${String(error)}`;
  }
}

/** Arguments for deploy/roll-out that are not in its usage text. */
function unknownToRollOut(args: readonly string[]): readonly string[] {
  return args.filter((word) => /^[a-z-]/.test(word) && !rollOutUsage.includes(word));
}

const filePath = /(?<![\w./-])(?:deploy|docs|test)\/[\w./-]+(?![\w./[-])/g;

/** The missing targets of a `make` command. */
function missingTargets(args: readonly string[]): readonly string[] {
  return args
    .filter((argument) => /^[a-z-]+$/.test(argument))
    .filter((target) => !new RegExp(`^${target}:`, "m").test(makefile));
}

describe("commands in a guide", () => {
  for (const { path, text } of pages) {
    const commands = commandsOf(text);

    it(`have valid flags: docs/${path}`, () => {
      const callsOf = (program: string) =>
        commands.flatMap((command) => argumentsOf(program, command));
      const e2eCalls = ["kube-ipvs-e2e", "dist/kube-ipvs-e2e"].flatMap(callsOf);
      const mistakes = [...callsOf("kube-ipvs").map(mistakeIn), ...e2eCalls.map(e2eMistakeIn)];
      assert.deepEqual(
        mistakes.filter((mistake) => mistake !== undefined),
        [],
      );
      assert.deepEqual(callsOf("deploy/roll-out").flatMap(unknownToRollOut), []);
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

  it("are rejected by this test if a flag or target is unknown", () => {
    const [call = []] = argumentsOf(
      "kube-ipvs",
      "kubectl exec POD -- kube-ipvs status --no-such | cat",
    );
    assert.deepEqual(call, ["status", "--no-such"]);
    assert.match(mistakeIn(call) ?? "", /--no-such/);
    assert.deepEqual(missingTargets(["no-such", "A=1"]), ["no-such"]);
    assert.match(e2eMistakeIn(["--no-such"]) ?? "", /--no-such/);
    assert.deepEqual(unknownToRollOut(["--wave", "3", "start", "no-such"]), ["no-such"]);
  });
});
