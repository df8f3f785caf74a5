import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Holder } from "../../cluster/holder.ts";
import { runShell } from "../../cluster/operator.ts";

async function isRunning(pid: number): Promise<boolean> {
  for (let look = 0; look < 100; look += 1) {
    try {
      // A zombie is a process that has exited.
      if (/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, "utf8"))) return false;
    } catch {
      return false;
    }
    await sleep(50);
  }
  return true;
}

describe("An interrupted run", () => {
  it("stops the programs that hold connections", { timeout: 10_000 }, async () => {
    const abort = new AbortController();
    const holder = await Holder.open(["sh", "-c", "echo '{}'; exec sleep 600"], 1, abort.signal);
    abort.abort();
    await assert.rejects(holder.end(), /exited after 0/);
  });

  it("stops a guide's command with everything that it started", async () => {
    const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-"));
    const abort = new AbortController();
    const command = `sleep 60 & echo $! > ${folder}/pid; mv ${folder}/pid ${folder}/child; wait`;
    const ended = runShell(["sh", "-ec", command], { signal: abort.signal });
    let child: number | undefined;
    while (child === undefined) {
      await sleep(20);
      try {
        child = Number(readFileSync(join(folder, "child"), "utf8"));
      } catch {}
    }
    abort.abort();
    await assert.rejects(ended, /exited with SIGKILL/);
    assert.equal(await isRunning(child), false);
    rmSync(folder, { recursive: true });
  });
});
