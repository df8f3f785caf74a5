import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";

const engine = JSON.stringify(new URL("../../../src/daemon/engine.ts", import.meta.url).href);

/** Times that the heap was collected as a whole while it grew; in a process of its own: what is asked of an engine stays. */
function collections(script: string): number {
  const source = `
    const { keepRoomInHeap } = await import(${engine});
    ${script}
    const kept = [];
    for (let i = 0; i < 1_500_000; i += 1) kept.push({ i, text: "x" + i });
  `;
  const flags = ["--optimize-for-size", "--max-semi-space-size=2", "--trace-gc"];
  const argv = [...flags, "--input-type=module", "--eval", source];
  const output = execFileSync(process.execPath, argv, { encoding: "utf8", maxBuffer: 2 ** 26 });
  return output.match(/Mark-Compact/g)?.length ?? 0;
}

describe("the engine", () => {
  it("collects a growing heap less often once it may keep room", () => {
    const before = collections("");
    const after = collections("keepRoomInHeap();");
    assert.ok(after > 0 && after < before, `${after} times instead of ${before}`);
  });
});
