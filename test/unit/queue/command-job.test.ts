import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { commandJob } from "../../queue/command-job.ts";
import { commands } from "../../queue/commands.ts";

const never = new AbortController().signal;
const script = (text: string, signal = never) =>
  commandJob({ name: "script", argv: ["sh", "-c", text], hasNoSummary: true }).run(0, signal);

describe("a command in the queue", () => {
  it("passes with exit status 0, and its CPU time is counted", async () => {
    const burn = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; echo out; echo err >&2";
    const { failure, output, cpuSeconds = 0 } = await script(burn);
    assert.equal(failure, undefined);
    assert.deepEqual(output.trim().split("\n").toSorted(), ["err", "out"]);
    assert.ok(cpuSeconds > 0.01, `${cpuSeconds} s`);
  });

  it("fails with any other status, or when a signal ends it", async () => {
    assert.equal((await script("exit 3")).failure, "FAILED: exit status 3");
    assert.equal((await script("kill -TERM $$")).failure, "FAILED: ended by SIGTERM");
  });

  it("fails when no test ran", async () => {
    const none = commandJob({ name: "none", argv: ["true"] });
    assert.equal((await none.run(0, never)).failure, "FAILED: no test ran");
    const one = commandJob({ name: "one", argv: ["printf", "ℹ pass 1\\nℹ fail 0\\n"] });
    assert.equal((await one.run(0, never)).failure, undefined);
  });

  it("ends with all its child processes when the run is stopped", async () => {
    const abort = new AbortController();
    const running = script("sleep 1000 & echo $!; wait", abort.signal);
    setTimeout(() => abort.abort(), 200);
    const { failure, output } = await running;
    assert.equal(failure, "stopped");
    assert.ok(!existsSync(join("/proc", output.trim(), "exe")), output);
  });

  it("has a unique name", () => {
    const names = commands().map(({ name }) => name);
    assert.equal(new Set(names).size, names.length);
  });
});
