import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";

const engine = JSON.stringify(new URL("../../../src/daemon/engine.ts", import.meta.url).href);

/** In a process of its own: what is asked of an engine stays. */
function run(script: string): string {
  const source = `const engine = await import(${engine});\n${script}`;
  const flags = ["--optimize-for-size", "--v8-pool-size=2", "--input-type=module"];
  return execFileSync(process.execPath, [...flags, "--eval", source], { encoding: "utf8" });
}

describe("the engine", () => {
  it("collects and compiles on threads that let the event loop go first", () => {
    const output = run(`
      import { readdirSync, readFileSync } from "node:fs";
      import { getPriority } from "node:os";
      const priorities = () => readdirSync("/proc/self/task").map((task) =>
        readFileSync("/proc/self/task/" + task + "/comm", "utf8").trim() + " " + getPriority(Number(task)));
      const before = priorities();
      engine.yieldToEventLoop();
      console.log(JSON.stringify({ before, after: priorities() }));
    `);
    const { before, after } = JSON.parse(output) as Record<"before" | "after", readonly string[]>;
    const helpers = (names: readonly string[]): readonly string[] =>
      names.filter((name) => name.startsWith("V8Worker "));
    assert.deepEqual(helpers(before), ["V8Worker 0", "V8Worker 0"]);
    assert.deepEqual(helpers(after), ["V8Worker 10", "V8Worker 10"]);
    const others = (names: readonly string[]): readonly string[] =>
      names.filter((name) => !name.startsWith("V8Worker "));
    assert.deepEqual(others(after), others(before));
  });

  it("keeps room in its heap when it is asked to: what was garbage is not moved together", () => {
    const output = run(`
      engine.keepRoomInHeap();
      let kept = [];
      for (let i = 0; i < 400_000; i += 1) kept.push({ i });
      console.log(kept.length);
    `);
    assert.equal(output, "400000\n");
  });
});
