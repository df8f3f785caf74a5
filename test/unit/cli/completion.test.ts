import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { commands } from "../../../src/cli/commands.ts";
import { completionsOf } from "../../../src/cli/complete.ts";
import { flags } from "../../../src/cli/flags.ts";
import { runCommand } from "../../support/run-command.ts";

/** Returns the candidates for the last word. */
function offered(...words: readonly string[]): readonly string[] {
  return completionsOf(words)
    .split("\n")
    .flatMap((line) => (line === "" ? [] : [line.split("\t")[0] ?? ""]));
}

describe("completion", () => {
  const folder = mkdtempSync(join(tmpdir(), "completion-"));
  after(() => rmSync(folder, { recursive: true }));
  const formats = ["text", "wide", "json", "yaml", "name", "table"];
  const cases: readonly (readonly [words: readonly string[], wanted: readonly string[]])[] = [
    [["d"], ["drains", "doctor"]],
    [[""], commands.map(({ name }) => name)],
    [["--ipvs-sche"], ["--ipvs-scheduler"]],
    [["plan", "--ipvs-sche"], ["--ipvs-scheduler"]],
    [["doctor", "--bef"], ["--before-install"]],
    [["doctor", "-o", ""], formats],
    [["doctor", "--output", "=", "j"], ["json"]],
    [["doctor", "--output", "="], formats],
    [["completion", "z"], ["zsh"]],
    [["completion", "--"], ["--help"]],
    [["--before"], []],
    [["--config", ""], []],
  ];
  for (const [words, wanted] of cases) {
    it(`of ${words.join(" ")}`, () => assert.deepEqual(offered(...words), wanted));
  }

  it("offers every flag that has a description, with its description", () => {
    for (const { name, help } of flags) {
      const isOffered = completionsOf(["plan", `--${name}`]).includes(`--${name}\t${help}\n`);
      assert.equal(isOffered, help !== "", name);
    }
  });

  for (const shell of ["bash", "zsh", "fish"]) {
    it(`prints a script that ${shell} can parse`, async () => {
      const { code, out } = await runCommand(["completion", shell]);
      assert.equal(code, 0);
      assert.match(out, /__complete/);
      const file = join(folder, shell);
      writeFileSync(file, out);
      // bash prints a warning if the locale is not installed.
      const env = { ...process.env, LC_ALL: "C.UTF-8" };
      const check = spawnSync(shell, ["-n", file], { encoding: "utf8", env });
      // zsh and fish are not installed on every machine.
      if (check.error === undefined) assert.deepEqual([check.status, check.stderr], [0, ""]);
    });
  }

  it("passes bash's words to the program, and offers the words in its answer", async () => {
    const { out } = await runCommand(["completion", "bash"]);
    const script = `${out}
kube-ipvs() { printf '[%s]' "$@"; printf '\\t%s\\n' help; }
COMP_WORDS=(kube-ipvs doctor -o ''); COMP_CWORD=3; _kube_ipvs; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const printed = execFileSync("bash", ["-u", "-c", script], { encoding: "utf8" });
    assert.equal(printed, "[__complete][doctor][-o][]\n");
  });

  it("exists only for these shells", async () => {
    for (const shell of ["tcsh", "toString"]) {
      assert.equal((await runCommand(["completion", shell])).code, 1);
    }
  });
});
