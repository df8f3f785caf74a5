import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";

const engine = JSON.stringify(new URL("../../../src/daemon/engine.ts", import.meta.url).href);

const growing = `
  const kept = [];
  for (let i = 0; i < 1_500_000; i += 1) kept.push({ i, text: "x" + i });
`;

/** The collections of the whole heap, in a process of its own: what is asked of an engine stays. */
function collections(script: string): readonly string[] {
  const source = `
    const { collectInSteps, keepRoomInHeap } = await import(${engine});
    ${script}
  `;
  const flags = ["--optimize-for-size", "--max-semi-space-size=2", "--trace-gc"];
  const argv = [...flags, "--input-type=module", "--eval", source];
  const output = execFileSync(process.execPath, argv, { encoding: "utf8", maxBuffer: 2 ** 26 });
  return output.match(/^.*Mark-Compact.*$/gm) ?? [];
}

describe("the engine", () => {
  it("collects a growing heap less often once it may keep room", () => {
    const before = collections(growing).length;
    const after = collections(`keepRoomInHeap(); ${growing}`).length;
    assert.ok(after > 0 && after < before, `${after} times instead of ${before}`);
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
