/** Programs: what JavaScript gets of them, and how they and whoever waits for them end. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import { type ProgramEnd, type ProgramRequest, runProgram } from "../../native-shim/run-program.ts";
import { usualGrowth } from "./growth.ts";
import { countOpenFiles, countThreads, errnos } from "./messages.ts";

const execute = promisify(execFile);
const shim = JSON.stringify(new URL("../../native-shim/run-program.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "shim-programs-"));
after(() => rmSync(folder, { recursive: true }));

const usual: Omit<ProgramRequest, "arguments"> = {
  environment: { PATH: "/usr/bin:/bin" },
  folders: ["/usr/bin", "/bin"],
  input: new Uint8Array(0),
  timeoutMs: 20_000,
  maxOutputBytes: 1_000_000,
};

function run(
  programArguments: ProgramRequest["arguments"],
  options: Partial<ProgramRequest> = {},
): Promise<ProgramEnd> {
  return runProgram({ ...usual, ...options, arguments: programArguments });
}

function sh(script: string, options: Partial<ProgramRequest> = {}): Promise<ProgramEnd> {
  return run(["sh", "-c", script], options);
}

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString();

/** Processes that are ours, ended ones that nobody has reaped too. */
function children(): readonly string[] {
  const tasks = readdirSync("/proc/self/task").map((task) => `/proc/self/task/${task}/children`);
  const texts = tasks.map((path) => (existsSync(path) ? readFileSync(path, "utf8") : ""));
  return texts
    .join("")
    .split(" ")
    .filter((pid) => pid !== "");
}

/** Runs; one that has ended and that somebody else is to reap does not. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** Until it holds, for 20 s. */
async function eventually(holds: () => boolean): Promise<void> {
  for (let tries = 0; !holds() && tries < 4000; tries += 1) await delay(5);
  assert.ok(holds());
}

describe("a program", () => {
  it("gives its exit code and what it wrote", async () => {
    const end = await sh("cat; echo err >&2; exit 4", { input: Buffer.from("in") });
    assert.deepEqual(
      { ...end, output: textOf(end.output), errorOutput: textOf(end.errorOutput) },
      { errno: 0, operation: "", exitCode: 4, signal: 0, output: "in", errorOutput: "err\n" },
    );
  });

  it("gives the signal that ended it", async () => {
    const { errno, exitCode, signal } = await sh("kill -9 $$");
    assert.deepEqual({ errno, exitCode, signal }, { errno: 0, exitCode: 0, signal: 9 });
  });

  it("has no environment but the one given", async () => {
    const { output } = await run(["env"], { environment: { A: "1", B: "two words" } });
    assert.equal(textOf(output), "A=1\nB=two words\n");
  });

  it("says which errno kept it from starting", async () => {
    const script = join(folder, "script");
    writeFileSync(script, "echo no interpreter is named\n", { mode: 0o755 });
    const { ENOENT, EACCES, ENOEXEC } = errnos;
    const cases = [
      ["no-such-program", ENOENT],
      ["/etc/passwd", EACCES],
      [script, ENOEXEC],
    ] as const;
    for (const [name, errno] of cases) {
      const end = await run([name]);
      assert.deepEqual([end.errno, end.operation], [errno, "start"], name);
    }
  });

  it("is stopped at its time-out", async () => {
    const { errno, operation, signal } = await run(["sleep", "60"], { timeoutMs: 30 });
    assert.deepEqual([errno, operation, signal], [errnos.ETIMEDOUT, "run", 15]);
  });

  it("is stopped when it writes more than asked for", async () => {
    const { errno, operation } = await run(["yes"], { maxOutputBytes: 10_000 });
    assert.deepEqual([errno, operation], [errnos.EMSGSIZE, "run"]);
  });

  /** fork(2) write-protects the memory of the process: each page that is written afterwards is a fault. */
  it("costs the process that runs it none of its memory", async () => {
    const pageBytes = 4096;
    const bytes = Buffer.alloc(64 * 2 ** 20, 1);
    const writeAll = (): void => {
      for (let at = 0; at < bytes.length; at += pageBytes) bytes.writeUInt8(at % 251, at);
    };
    writeAll();
    const faults = process.resourceUsage().minorPageFault;
    await run(["true"]);
    writeAll();
    const more = process.resourceUsage().minorPageFault - faults;
    assert.ok(more < bytes.length / pageBytes / 8, `${more} page faults more`);
  });

  it("does not keep those of Node.js from ending, nor they it", async () => {
    const ours = Array.from({ length: 20 }, (_, code) => sh(`exit ${code}`));
    const theirs = Array.from({ length: 20 }, () => execute("sh", ["-c", "echo theirs"]));
    const codes = (await Promise.all(ours)).map(({ exitCode }) => exitCode);
    assert.deepEqual(codes, [...codes.keys()]);
    for (const { stdout } of await Promise.all(theirs)) assert.equal(stdout, "theirs\n");
    assert.deepEqual(children(), []);
  });

  it("leaves no descriptor, thread, process or memory behind", async () => {
    await run(["true"]);
    const files = countOpenFiles();
    const threads = countThreads();
    const grown = await usualGrowth(async () => {
      for (let round = 0; round < 30; round += 1) {
        await Promise.all([
          sh("head -c 900000 /dev/zero"),
          run(["no-such-program"]),
          run(["yes"]),
          run(["sleep", "9"], { timeoutMs: 0 }),
        ]);
      }
      await eventually(() => countThreads() <= threads);
    });
    // One output kept per round would be 25 MB and more.
    assert.ok(grown < 20 * 2 ** 20, `${grown} bytes more`);
    assert.ok(countOpenFiles() <= files);
    assert.deepEqual(children(), []);
  });
});

describe("wrong arguments of a program", () => {
  const wrong: readonly (readonly [string, object])[] = [
    ["no program", { arguments: [] }],
    ["a NUL in an argument", { arguments: ["echo", "a\0b"] }],
    ["a NUL in the environment", { environment: { A: "a\0b" } }],
    ["a NUL in a folder", { folders: ["/usr/bin\0"] }],
    ["a text as input", { input: "text" }],
    ["words as input", { input: new Uint16Array(8) }],
    ["no time-out", { timeoutMs: undefined }],
    ["a negative time-out", { timeoutMs: -1 }],
    ["a time-out that never ends", { timeoutMs: Number.POSITIVE_INFINITY }],
    ["a fraction of a byte", { maxOutputBytes: 0.5 }],
    ["more than may be held", { maxOutputBytes: 2 ** 28 + 1 }],
  ];
  for (const [name, options] of wrong) {
    it(`are refused: ${name}`, () => {
      const request = { ...usual, arguments: ["true"], ...options } as unknown as ProgramRequest;
      assert.throws(() => runProgram(request), TypeError);
      assert.deepEqual(children(), []);
    });
  }
});

describe("the process that waits for a program", () => {
  const preamble = `
    import { runProgram } from ${shim};
    const run = (...argv) => runProgram({ ...${JSON.stringify({ ...usual, input: undefined })}, input: new Uint8Array(0), arguments: argv });`;

  async function outputOf(lines: string): Promise<string> {
    const argv = ["--input-type=module", "--eval", preamble + lines];
    const { stdout } = await execute(process.execPath, argv, { timeout: 20_000 });
    return stdout.trim();
  }

  it("is kept alive until it has ended, and no longer", async () => {
    const text = await outputOf(
      `run("sleep", "0.1").then(({ exitCode }) => console.log(exitCode));`,
    );
    assert.equal(text, "0");
  });

  it("may exit meanwhile: the program is stopped", async () => {
    const file = join(folder, "exit");
    await outputOf(`
      import { existsSync } from "node:fs";
      run("sh", "-c", "echo $$ > ${file}.new; mv ${file}.new ${file}; exec sleep 60");
      setInterval(() => { if (existsSync("${file}")) process.exit(0); }, 5);`);
    const pid = Number(readFileSync(file, "utf8"));
    await eventually(() => !isRunning(pid));
  });

  it("is told of what throws in between as usual", async () => {
    const text = await outputOf(`
      process.on("uncaughtException", ({ message }) => { console.log(message); });
      run("true").then(() => { throw new Error("thrown after it"); });`);
    assert.equal(text, "thrown after it");
  });

  it("may be a worker that is ended meanwhile: the program is stopped and reaped", async () => {
    const threads = countThreads();
    const file = join(folder, "worker");
    const program = `${preamble}
      run("sh", "-c", "echo $$ > ${file}.new; mv ${file}.new ${file}; exec sleep 60");`;
    const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(program)}`));
    await eventually(() => readPid(file) !== undefined);
    const exited = once(worker, "exit");
    await worker.terminate();
    await exited;
    await eventually(() => !existsSync(`/proc/${readPid(file)}`));
    await eventually(() => countThreads() <= threads);
    assert.equal((await run(["true"])).exitCode, 0);
  });
});

function readPid(file: string): number | undefined {
  try {
    return Number(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}
