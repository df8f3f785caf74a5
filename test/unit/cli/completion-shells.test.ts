/** Completion in zsh and fish themselves: words are typed, Tab is pressed. `make setup` installs both. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { completionScript } from "../../../src/cli/completion/completion.ts";

const folder: string = mkdtempSync(join(tmpdir(), "completion-"));
after(() => rmSync(folder, { recursive: true }));

function scriptFile(shell: string): string {
  const path = join(folder, shell);
  writeFileSync(path, completionScript(shell) ?? "");
  return path;
}

function skipUnless(shell: string): false | string {
  const isThere = spawnSync(shell, ["-c", "true"]).status === 0;
  return isThere ? false : `${shell} is not installed: make setup`;
}

function printedBy(shell: string, argv: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(shell, argv, {
    encoding: "utf8",
    timeout: 60_000,
    // Shells warn if LC_ALL names a locale that is not installed.
    env: { ...process.env, LC_ALL: "C.UTF-8" },
  });
  assert.equal(status, 0, stderr);
  return stdout;
}

describe("in fish", { skip: skipUnless("fish") }, () => {
  const offered = (line: string): readonly string[] =>
    printedBy("fish", ["-N", "-c", `source ${scriptFile("fish")}; complete -C '${line}'`])
      .split("\n")
      .map((row) => row.split("\t")[0] ?? "")
      .filter((word) => word !== "");

  it("a command", () => assert.deepEqual(offered("kube-ipvs stat"), ["status"]));
  it("a flag of a command", () => {
    assert.deepEqual(offered("kube-ipvs doctor --bef"), ["--before-install"]);
  });
  it("a value", () => assert.deepEqual(offered("kube-ipvs doctor -o j"), ["json"]));
});

/** In a file: of what is typed the terminal prints back as much as fits into its width. */
const zshSetUp = `
PROMPT=
autoload -Uz compinit
compinit -u -D
source ${folder}/zsh
kube-ipvs() { print -r -- RAN:$*:END }
`;

/** A shell on a terminal of its own; what it would run is printed in place of being run. */
const zshTerminal = `
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell "source $1"
zpty -w -n shell "kube-ipvs $2"$'\\t\\n'
repeat 300; do
  while zpty -r -t shell chunk; do out+=$chunk; done
  [[ $out == *RAN:*:END* ]] && break
  sleep 0.1
done
print -r -- $out
`;

describe("in zsh", { skip: skipUnless("zsh") }, () => {
  const setUp = join(folder, "set-up.zsh");
  before(() => {
    scriptFile("zsh");
    writeFileSync(setUp, zshSetUp);
  });

  const completed = (line: string): string => {
    const printed = printedBy("zsh", ["-f", "-c", zshTerminal, "zsh", setUp, line]);
    const [, found] = /RAN:([^:]*):END/.exec(printed) ?? [];
    assert.ok(found !== undefined, printed);
    return found.trim();
  };

  it("a command", () => assert.equal(completed("stat"), "status"));
  it("a flag of a command", () => {
    assert.equal(completed("doctor --bef"), "doctor --before-install");
  });
  it("a value", () => assert.equal(completed("doctor -o j"), "doctor -o json"));
});
