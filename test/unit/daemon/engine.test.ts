import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";

const engine = JSON.stringify(new URL("../../../src/daemon/engine.ts", import.meta.url).href);

const growing = `
  const kept = [];
  for (let i = 0; i < 1_500_000; i += 1) kept.push({ i, text: "x" + i });
`;

/** The collections of the whole heap, in a process of its own: what is asked of an engine stays. */
function collections(script: string): readonly string[] {
  const source = `
    const { collectInSteps, keepRoomInHeap, spareHeap } = await import(${engine});
    ${script}
  `;
  const flags = ["--max-semi-space-size=2", "--trace-gc"];
  const argv = [...flags, "--input-type=module", "--eval", source];
  const output = execFileSync(process.execPath, argv, { encoding: "utf8", maxBuffer: 2 ** 26 });
  return output.match(/^.*Mark-Compact.*$/gm) ?? [];
}

describe("the engine", () => {
  it("collects a growing heap more often while objects are read, and less often after that", () => {
    const [before, reading, after] = ["", "spareHeap();", "spareHeap(); keepRoomInHeap();"].map(
      (first) => collections(`${first} ${growing}`).length,
    ) as [number, number, number];
    assert.ok(reading > before, `${reading} times instead of ${before}`);
    assert.ok(after > 0 && after < reading, `${after} times instead of ${reading}`);
  });

  /** Flags that change what the engine compiles make it refuse what was compiled with others: 30 ms at each start. */
  it("takes the compiled code that Node.js brings, with the launcher's flags", () => {
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

  it("collects when it is told to, in steps and not at once, and no address space stays taken", () => {
    const waiting = "await new Promise((resolve) => setTimeout(resolve, 500));";
    assert.deepEqual(collections(waiting), []);
    const told = collections(`
      collectInSteps();
      ${waiting}
      const { arrayBuffers } = process.memoryUsage();
      if (arrayBuffers > 2 ** 24) throw new Error(arrayBuffers + " bytes are held");
    `);
    assert.equal(told.length, 1, told.join("\n"));
    assert.match(told[0] ?? "", /finalize incremental marking/);
  });
});
