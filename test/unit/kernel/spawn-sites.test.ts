/** Tests that the product starts programs in only one file and without a shell. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";

const project = join(import.meta.dirname, "../../..");
const sources = globSync("{src,native-shim}/**/*.{ts,c,h}", { cwd: project });
const textOf = (path: string): string => readFileSync(join(project, path), "utf8");
const filesWith = (pattern: RegExp): readonly string[] =>
  sources.filter((path) => pattern.test(textOf(path))).sort();

describe("programs are started", () => {
  it("by only one file, with arguments as a list", () => {
    assert.ok(sources.length > 100);
    const file = "src/kernel/run-program.ts";
    assert.deepEqual(filesWith(/["'](?:(?:node:)?child_process|node:cluster|execa)["']/), [file]);
    assert.match(textOf(file), /= execa\(call\.program, call\.arguments, \{/);
    const starts = /\b(?:posix_spawnp?|v?fork|execv\w*|execl\w*)\((?!\d)/;
    assert.deepEqual(filesWith(starts), []);
  });

  it("never by a shell", () => {
    const option =
      /\bshell: (?:true|["'`])|\bexecaCommand|\bpopen\(|\bsystem\(|["']\/bin\/(?:ba)?sh\b/;
    assert.deepEqual(filesWith(option), []);
    // The file that starts programs must not contain the word "shell". In other files, the word may refer to a Pod.
    assert.doesNotMatch(textOf("src/kernel/run-program.ts"), /\bshell\b *[:,}]/);
  });

  it("with constant names: only iptables programs and modprobe", () => {
    assert.deepEqual(filesWith(/^ +program: ["'`]/m), [
      "src/kernel/iptables/backend.ts",
      "src/kernel/modules/client.ts",
    ]);
  });
});

describe("the launcher", () => {
  const launcher = textOf("toolchain/launcher.sh");

  it("is replaced by the program, so no shell keeps running", () => {
    assert.match(launcher.trimEnd().split("\n").at(-1) ?? "", /^exec "\$lib\/node" .* "\$@"$/);
    assert.doesNotMatch(launcher, /\beval\b|`/);
  });

  it("disables core dumps, and a debugger on a signal", () => {
    assert.match(launcher, /^ulimit -c 0$/m);
    assert.match(launcher, / --disable-sigusr1 /);
  });
});
