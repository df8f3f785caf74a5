/** A process without core dumps, seen from outside: what it owns in /proc becomes root's, as prctl(2) says. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import { describe, it } from "node:test";

const nobody = 65_534;
const shim = new URL("../../native-shim/index.ts", import.meta.url);
const script = `
  const { forbidCoreDumps } = await import(${JSON.stringify(shim.href)});
  process.stdin.once("data", () => {
    forbidCoreDumps();
    process.stdout.write("forbidden");
  });
  process.stdout.write("ready");
`;

describe("forbidCoreDumps", () => {
  it("makes the process one that is never dumped", async (test) => {
    const child = spawn(process.execPath, ["--input-type=module", "--eval", script], {
      stdio: ["pipe", "pipe", "inherit"],
      uid: nobody,
      gid: nobody,
    });
    test.after(() => child.kill("SIGKILL"));
    const owner = (): number => statSync(`/proc/${child.pid}/environ`).uid;
    await once(child.stdout, "data");
    assert.equal(owner(), nobody);
    child.stdin.write("x");
    await once(child.stdout, "data");
    assert.equal(owner(), 0);
  });
});
