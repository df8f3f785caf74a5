/** Tests a process without core dumps from outside: root owns its files in /proc, as prctl(2) describes. */
import assert from "node:assert/strict";
import { type ChildProcessByStdio, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, cpSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { after, describe, it } from "node:test";

const nobody = 65_534;
const project = join(import.meta.dirname, "../..");

/** Copies of Node.js and the shim that every user can read, because the clone may be in one of root's folders. */
const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-core-dumps-"));
after(() => rmSync(folder, { recursive: true }));
const node = join(folder, "node");
copyFileSync(process.execPath, node);
const addonFolder = join("build/native-shim", process.arch);
for (const copied of ["native-shim", addonFolder])
  cpSync(join(project, copied), join(folder, copied), { recursive: true });
execFileSync("chmod", ["-R", "u=rwX,go=rX", folder]);

const script = `
  const { forbidCoreDumps } = await import(${JSON.stringify(join(folder, "native-shim/index.ts"))});
  process.stdin.once("data", () => {
    forbidCoreDumps();
    process.stdout.write("forbidden");
  });
  process.stdout.write("ready");
`;

/** Fails instead of waiting if the process exits first. */
async function waitForOutput(child: ChildProcessByStdio<Writable, Readable, null>): Promise<void> {
  const ended = once(child, "close").then(([code]) => assert.fail(`exited with status ${code}`));
  await Promise.race([once(child.stdout, "data"), ended]);
}

const skip = process.getuid?.() === 0 ? false : "it needs root to start a process as another user";

describe("forbidCoreDumps", () => {
  it("prevents core dumps of the process", { skip }, async (test) => {
    const child = spawn(node, ["--input-type=module", "--eval", script], {
      stdio: ["pipe", "pipe", "inherit"],
      uid: nobody,
      gid: nobody,
    });
    test.after(() => child.kill("SIGKILL"));
    const owner = (): number => statSync(`/proc/${child.pid}/environ`).uid;
    await waitForOutput(child);
    assert.equal(owner(), nobody);
    child.stdin.write("x");
    await waitForOutput(child);
    assert.equal(owner(), 0);
  });
});
