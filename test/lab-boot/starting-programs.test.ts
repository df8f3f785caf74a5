/** vfork-node.c, loaded into Node.js: threads that start programs at the same time leave each other's memory alone. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { it } from "node:test";
import { promisify } from "node:util";

const program = join(import.meta.dirname, "start-from-threads.ts");
const library = join(import.meta.dirname, "../../build/lab/vfork-node.so");

it("threads start programs at once, and the environment is what it was", async () => {
  // User-mode Linux, and with it the library, is for x86_64 alone.
  if (process.arch !== "x64") return;
  const env = { ...process.env, LD_PRELOAD: library, KEPT: "as it was" };
  const { stdout } = await promisify(execFile)(process.execPath, [program], { env });
  assert.equal(stdout, "as it was\n");
});
