/** Tests on this machine that test/lab/quick-node changes only the speed of Node.js. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, it } from "node:test";

const library = join(import.meta.dirname, "../../build/lab/quick-node.so");

/** Node.js's output with the library. */
function withLibrary(...argv: readonly string[]): string {
  const { stdout, stderr, status } = spawnSync(process.execPath, argv, {
    encoding: "utf8",
    env: { ...process.env, LD_PRELOAD: library, KEPT: "as it was" },
  });
  assert.equal(status, 0, stderr);
  return stdout;
}

describe("quick-node", { skip: process.arch === "x64" ? false : "amd64 only" }, () => {
  it("returns the kernel's time: files are written between two queries", () => {
    const script = `
      const { mkdtempSync, rmSync, statSync, writeFileSync } = require("node:fs");
      const folder = mkdtempSync(require("node:os").tmpdir() + "/quick-node-");
      // The kernel stamps files with the time of its last tick.
      const tickMs = 10;
      for (let round = 0; round < 2_000; round++) {
        const before = Date.now();
        writeFileSync(folder + "/file", String(round));
        const { mtimeMs } = statSync(folder + "/file");
        const after = Date.now();
        if (mtimeMs < before - tickMs || mtimeMs > after + 1) console.log(before, mtimeMs, after);
      }
      rmSync(folder, { recursive: true });
    `;
    assert.equal(withLibrary("-e", script), "");
  });

  it("has a monotonic clock that never goes back", () => {
    const script = `
      let last = process.hrtime.bigint();
      for (let round = 0; round < 2_000_000; round++) {
        const now = process.hrtime.bigint();
        if (now < last) console.log(last, now);
        last = now;
      }
    `;
    assert.equal(withLibrary("-e", script), "");
  });

  it("starts programs and returns their environment, output and exit status", () => {
    const script = `
      const { spawnSync } = require("node:child_process");
      const env = { ...process.env, WORD: "kept" };
      const { stdout, status } = spawnSync("sh", ["-c", "echo $WORD; exit 7"], { env });
      console.log(String(stdout).trim(), status, process.env.WORD ?? "none");
      console.log(spawnSync("/does/not/exist").error.code);
    `;
    assert.equal(withLibrary("-e", script), "kept 7 none\nENOENT\n");
  });

  it("keeps its environment when threads start programs at the same time", () => {
    const program = join(import.meta.dirname, "start-from-threads.ts");
    assert.equal(withLibrary(program), "as it was\n");
  });
});
