import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  notStarted,
  ProgramError,
  programEnvironment,
  programFolders,
  type RunProgram,
  readLines,
} from "../../../src/kernel/program.ts";
import { runProgram } from "../../../src/kernel/run-program.ts";

const sh = (
  script: string,
  options: { readonly input?: string; readonly timeoutMs?: number } = {},
): ReturnType<RunProgram> =>
  runProgram({ program: "sh", arguments: ["-c", script], timeoutMs: 60_000, ...options });

describe("running a program", () => {
  it("returns its output, even with a non-zero exit code", async () => {
    assert.deepEqual(await sh("echo out; echo err >&2; exit 4"), {
      exitCode: 4,
      output: "out\n",
      errorOutput: "err\n",
    });
  });

  it("passes the input, or an empty one if there is none", async () => {
    assert.equal((await sh("cat", { input: "*nat\nCOMMIT\n" })).output, "*nat\nCOMMIT\n");
    assert.equal((await sh("cat")).output, "");
  });

  it("uses UTF-8 for input and output", async () => {
    const input = "«Dienst» 服务\n".repeat(50_000);
    assert.equal((await sh("cat", { input })).output, input);
  });

  it("passes arguments without a shell", async () => {
    const result = await runProgram({
      program: "printf",
      arguments: ["%s", "$(id); `id` ; *"],
      timeoutMs: 60_000,
    });
    assert.equal(result.output, "$(id); `id` ; *");
  });

  it("requests English messages, and finds programs in the system folders", async () => {
    const { output } = await sh('echo "$LC_ALL $PATH"');
    assert.match(output, /^C .*\/usr\/sbin/);
  });

  it("tolerates a program that does not read its input", async () => {
    assert.equal((await sh("exit 3", { input: "x".repeat(1_000_000) })).exitCode, 3);
  });

  it("says what to check if no more files can be opened", () => {
    const call = { program: "iptables-save", arguments: [], timeoutMs: 60_000 };
    assert.equal(
      notStarted("EMFILE", call).message,
      "Cannot run iptables-save: EMFILE (too many open files: check ulimit -n and sysctl fs.file-nr)",
    );
  });

  const failures: readonly [string, () => Promise<unknown>, string, RegExp][] = [
    [
      "is not installed",
      () => runProgram({ program: "no-such-program", arguments: [], timeoutMs: 60_000 }),
      "not-found",
      /^Cannot run no-such-program: it is not installed/,
    ],
    [
      "is not executable",
      () => runProgram({ program: "/etc/passwd", arguments: [], timeoutMs: 60_000 }),
      "not-allowed",
      /EACCES/,
    ],
    [
      "takes too long",
      () => sh("exec sleep 60", { timeoutMs: 50 }),
      "timed-out",
      /^Cannot run sh: it did not finish within 0\.05 s and was killed$/,
    ],
    [
      "takes too long while its child keeps the output open",
      () => sh("sleep 60; true", { timeoutMs: 50 }),
      "timed-out",
      /^Cannot run sh: it did not finish within 0\.05 s and was killed$/,
    ],
    [
      "writes endlessly",
      () => sh("cat /dev/zero", { timeoutMs: 60_000 }),
      "output-too-long",
      /^Cannot run sh: it wrote more than 64 MB and was killed$/,
    ],
    [
      "writes errors endlessly",
      () => sh("cat /dev/zero >&2", { timeoutMs: 60_000 }),
      "output-too-long",
      /^Cannot run sh: it wrote more than 256 KB of errors and was killed$/,
    ],
    ["is killed", () => sh("kill -9 $$"), "killed", /killed by SIGKILL/],
  ];
  for (const [name, fail, failure, message] of failures) {
    it(`reports that it ${name}`, async () => {
      await assert.rejects(fail(), (error: unknown) => {
        assert.ok(error instanceof ProgramError);
        assert.equal(error.failure, failure);
        assert.match(error.message, message);
        return true;
      });
    });
  }
});

describe("a program that prints endlessly", () => {
  /** Formatting an error text of 64 MB once blocked the event loop for 45 s. */
  for (const stream of ["1", "2"]) {
    it(`uses little CPU time if it writes to file descriptor ${stream}`, async () => {
      const before = process.cpuUsage();
      await assert.rejects(sh(`cat /dev/zero >&${stream}`), { failure: "output-too-long" });
      const { user, system } = process.cpuUsage(before);
      assert.ok(user + system < 5_000_000, `${(user + system) / 1_000_000} s`);
    });
  }
});

describe("the folders of programs", () => {
  it("are those of PATH, then the system's, each once", () => {
    assert.deepEqual(programFolders("/opt/bin:/usr/bin"), [
      "/opt/bin",
      "/usr/bin",
      "/usr/local/sbin",
      "/usr/sbin",
      "/sbin",
      "/usr/local/bin",
      "/bin",
    ]);
  });

  it("never include the working directory", () => {
    assert.equal(programFolders(":.:bin:/usr/bin")[0], "/usr/bin");
  });

  it("are also the program's PATH", () => {
    assert.equal(programEnvironment()["PATH"], programFolders().join(":"));
  });
});

describe("output that is read by lines", () => {
  const lines = async (
    script: string,
    onLine?: (line: string) => void,
  ): Promise<readonly string[]> => {
    const read: string[] = [];
    const call = { program: "sh", arguments: ["-c", script], timeoutMs: 60_000 };
    await readLines(runProgram, call, onLine ?? ((line) => void read.push(line)));
    return read;
  };

  it("can be longer than the buffer limit", async () => {
    const script = "line=$(head -c 100000 /dev/zero | tr '\\0' x); yes $line | head -n 700";
    let [count, length] = [0, 0];
    await lines(script, (line) => {
      count += 1;
      length += line.length;
    });
    assert.deepEqual([count, length], [700, 70_000_000]);
  });

  it("is passed on completely, including a last line without an end and multi-byte characters", async () => {
    assert.deepEqual(await lines("printf 'a\\n\\nb'"), ["a", "", "b"]);
    assert.deepEqual(await lines("printf '\\303'; sleep 0.1; printf '\\244\\n'"), ["ä"]);
  });

  it("stops a program that writes an endless line, without using much time or memory", async () => {
    const before = process.cpuUsage();
    await assert.rejects(lines("cat /dev/zero"), {
      failure: "output-too-long",
      message: "Cannot run sh: it wrote more than 1 MB in a line and was killed",
    });
    const { user, system } = process.cpuUsage(before);
    assert.ok(user + system < 5_000_000, `${(user + system) / 1_000_000} s`);
  });

  it("rejects with the error from a line's callback, and stops the program", async () => {
    const fail = (): never => {
      throw new Error("not a rule");
    };
    await assert.rejects(lines("yes | head -n 100000", fail), /not a rule/);
  });
});
