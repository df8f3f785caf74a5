import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import { completionScript } from "../../../src/cli/completion/completion.ts";
import { flags } from "../../../src/cli/flags.ts";
import { subcommands } from "../../../src/cli/subcommands.ts";

const bash = completionScript("bash") ?? "";

/** What bash itself offers behind these words; the last one is being written. */
function offered(...words: readonly string[]): readonly string[] {
  const quoted = ["kube-ipvs", ...words].map((word) => `'${word}'`).join(" ");
  const script = `${bash}\nCOMP_WORDS=(${quoted}); COMP_CWORD=${words.length}; _kube_ipvs; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const printed = execFileSync("bash", ["-u", "-c", script], { encoding: "utf8" });
  return printed.split("\n").filter((word) => word !== "");
}

describe("completion", () => {
  const cases: readonly (readonly [words: readonly string[], wanted: readonly string[]])[] = [
    [["d"], subcommands.map(({ name }) => name).filter((name) => name.startsWith("d"))],
    [["--ipvs-sche"], ["--ipvs-scheduler"]],
    [["plan", "--ipvs-sche"], ["--ipvs-scheduler"]],
    [["doctor", "--bef"], ["--before-install"]],
    [
      ["doctor", "-o", ""],
      ["table", "json", "yaml"],
    ],
    [["doctor", "--output", "=", "j"], ["json"]],
    [
      ["doctor", "--output", "="],
      ["table", "json", "yaml"],
    ],
    [["completion", "z"], ["zsh"]],
    [["completion", "--"], ["--help"]],
    [["--before"], []],
  ];
  for (const [words, wanted] of cases) {
    it(`in bash: ${words.join(" ")}`, () => assert.deepEqual(offered(...words), wanted));
  }

  for (const shell of ["bash", "zsh", "fish"]) {
    it(`in ${shell} names every command and every flag that has a description`, () => {
      const script = completionScript(shell) ?? assert.fail();
      for (const { name } of subcommands) assert.match(script, new RegExp(`\\b${name}\\b`));
      for (const { name, help } of flags) {
        const pattern = shell === "fish" ? `-l ${name} ` : `--${name}[ =\\['*]`;
        assert.equal(new RegExp(pattern).test(script), help !== "", name);
      }
      const check = spawnSync(shell, ["-n"], { input: script, encoding: "utf8" });
      // zsh and fish are not on every machine.
      if (check.error === undefined) assert.deepEqual([check.status, check.stderr], [0, ""]);
    });
  }

  it("escapes help for zsh and fish", () => {
    const zsh = completionScript("zsh") ?? "";
    const fish = completionScript("fish") ?? "";
    // An apostrophe in the help of --master.
    assert.ok(zsh.includes("kubeconfig'\\''s]"), zsh.slice(0, 2_000));
    assert.ok(fish.includes("kubeconfig\\'s'"));
  });

  it("is there for these shells alone", () => {
    assert.equal(completionScript("tcsh"), undefined);
    assert.equal(completionScript("toString"), undefined);
  });
});
