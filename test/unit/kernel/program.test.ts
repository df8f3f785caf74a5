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

  it("takes text for UTF-8, both ways", async () => {
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

  it("asks for English, and finds programs of the system folders", async () => {
    const { output } = await sh('echo "$LC_ALL $PATH"');
    assert.match(output, /^C .*\/usr\/sbin/);
  });

  it("survives a program that does not read its input", async () => {
    assert.equal((await sh("exit 3", { input: "x".repeat(1_000_000) })).exitCode, 3);
  });

  it("says what to check where no more files may be opened", () => {
    const call = { program: "iptables-save", arguments: [], timeoutMs: 60_000 };
    assert.equal(
      notStarted("EMFILE", call).message,
      "Cannot run iptables-save: EMFILE (too many files are open: ulimit -n, sysctl fs.file-nr)",
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
      "may not be run",
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
      "takes too long, although its child keeps the output open",
      () => sh("sleep 60; true", { timeoutMs: 50 }),
      "timed-out",
      /^Cannot run sh: it did not finish within 0\.05 s and was killed$/,
    ],
    [
      "writes without end",
      () => sh("cat /dev/zero", { timeoutMs: 60_000 }),
      "output-too-long",
      /^Cannot run sh: it wrote more than 64 MB and was killed$/,
    ],
    [
      "writes errors without end",
      () => sh("cat /dev/zero >&2", { timeoutMs: 60_000 }),
      "output-too-long",
      /^Cannot run sh: it wrote more than 256 KB of errors and was killed$/,
    ],
    ["is killed", () => sh("kill -9 $$"), "killed", /killed by SIGKILL/],
  ];
  for (const [name, fail, failure, message] of failures) {
    it(`says that it ${name}`, async () => {
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
  /** Building an error text of 64 MB took 45 s of processor time, during which the event loop stood still. */
  for (const stream of ["1", "2"]) {
    it(`costs little processor time when it writes to file descriptor ${stream}`, async () => {
      const before = process.cpuUsage();
      await assert.rejects(sh(`cat /dev/zero >&${stream}`), { failure: "output-too-long" });
      const { user, system } = process.cpuUsage(before);
      assert.ok(user + system < 5_000_000, `${(user + system) / 1_000_000} s`);
    });
  }
});

describe("where programs are looked for", () => {
  it("our PATH, then the system's folders, each once", () => {
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

  it("never where we happen to work", () => {
    assert.equal(programFolders(":.:bin:/usr/bin")[0], "/usr/bin");
  });

  it("is given to the program, too", () => {
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

  it("may be longer than any text that is kept", async () => {
    const script = "line=$(head -c 100000 /dev/zero | tr '\\0' x); yes $line | head -n 700";
    let [count, length] = [0, 0];
    await lines(script, (line) => {
      count += 1;
      length += line.length;
    });
    assert.deepEqual([count, length], [700, 70_000_000]);
  });

  it("is handed over whole, also without an end of its last line and across characters of several bytes", async () => {
    assert.deepEqual(await lines("printf 'a\\n\\nb'"), ["a", "", "b"]);
    assert.deepEqual(await lines("printf '\\303'; sleep 0.1; printf '\\244\\n'"), ["ä"]);
  });

  it("ends a program that writes a line without end, before it costs time or memory", async () => {
    const before = process.cpuUsage();
    await assert.rejects(lines("cat /dev/zero"), {
      failure: "output-too-long",
      message: "Cannot run sh: it wrote more than 1 MB in a line and was killed",
    });
    const { user, system } = process.cpuUsage(before);
    assert.ok(user + system < 5_000_000, `${(user + system) / 1_000_000} s`);
  });

  it("rejects with what a line throws, and the program ends", async () => {
    const fail = (): never => {
      throw new Error("not a rule");
    };
    await assert.rejects(lines("yes | head -n 100000", fail), /not a rule/);
  });
});
