import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";

describe("the launcher's flags", () => {
  /** Flags that change what the engine compiles make it refuse what was compiled with others: 30 ms at each start. */
  it("let the engine take the compiled code that Node.js brings", () => {
    const launcher = new URL("../../../toolchain/launcher.sh", import.meta.url);
    const command = /^exec .*$/m.exec(readFileSync(launcher, "utf8"))?.[0] ?? "";
    const flags = command.match(/ --[a-z0-9=-]+/g)?.map((flag) => flag.trim()) ?? [];
    const source = "process.stdout.write(String(v8.cachedDataVersionTag()))";
    const tagWith = (...argv: string[]): string =>
      execFileSync(process.execPath, [...argv, "--eval", source], { encoding: "utf8" });
    assert.ok(flags.length > 0);
    assert.equal(tagWith(...flags), tagWith());
    assert.notEqual(tagWith("--no-maglev"), tagWith());
  });
});
