import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ProgramError, runProgram } from "../../../src/kernel/program.ts";

function sh(
  script: string,
  options: { readonly input?: string; readonly timeoutMs?: number } = {},
) {
  return runProgram({ program: "sh", arguments: ["-c", script], timeoutMs: 10_000, ...options });
}

describe("running a program", () => {
  it("gives its output, also with an exit code", async () => {
    assert.deepEqual(await sh("echo out; echo err >&2; exit 4"), {
      exitCode: 4,
      output: "out\n",
      errorOutput: "err\n",
    });
  });

  it("hands over the input, and none as an empty one", async () => {
    assert.equal((await sh("cat", { input: "*nat\nCOMMIT\n" })).output, "*nat\nCOMMIT\n");
    assert.equal((await sh("cat")).output, "");
  });

  it("passes arguments without a shell", async () => {
    const result = await runProgram({
      program: "printf",
      arguments: ["%s", "$(id); `id` ; *"],
      timeoutMs: 10_000,
    });
    assert.equal(result.output, "$(id); `id` ; *");
  });

  it("asks for English, and finds programs of the system folders", async () => {
    const { output } = await sh('echo "$LC_ALL $PATH"');
    assert.match(output, /^C .*\/usr\/sbin/);
  });

  it("survives a program that does not read its input", async () => {
    assert.equal((await sh("exit 3", { input: "x".repeat(1_000_000) })).exitCode, 3);
  });

  const failures: readonly [string, () => Promise<unknown>, string, RegExp][] = [
    [
      "is not installed",
      () => runProgram({ program: "no-such-program", arguments: [], timeoutMs: 10_000 }),
      "not-found",
      /^Cannot run no-such-program: it is not installed/,
    ],
    [
      "may not be run",
      () => runProgram({ program: "/etc/passwd", arguments: [], timeoutMs: 10_000 }),
      "not-allowed",
      /EACCES/,
    ],
    [
      "takes too long",
      () => sh("exec sleep 60", { timeoutMs: 50 }),
      "timed-out",
      /^Cannot run sh: it did not end within 0\.05 s and was stopped$/,
    ],
    ["is killed", () => sh("kill -9 $$"), "killed", /ended by SIGKILL/],
  ];
  for (const [name, run, failure, message] of failures) {
    it(`says that it ${name}`, async () => {
      await assert.rejects(run(), (error: unknown) => {
        assert.ok(error instanceof ProgramError);
        assert.equal(error.failure, failure);
        assert.match(error.message, message);
        return true;
      });
    });
  }
});
