/** Runs the machine's own programs by execa, without a shell (docs/decisions/0012). */
import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { execa } from "execa";
import {
  killedBy,
  notStarted,
  ProgramError,
  programEnvironment,
  type RunProgram,
  timedOut,
} from "./program.ts";

/** Output beyond this is refused unless it is read by lines; 50,000 saved rules take about 8 MB. */
const largestOutputBytes = 64 * 1024 * 1024;
/** execa escapes all that it has buffered when a program fails, 1 s per MB: it gets stderr alone, and little of that. */
const largestErrorOutputBytes = 256 * 1024;
/** How long after SIGTERM a program that overran its time is killed. */
const killDelayMs = 1_000;

/** The program is in the network namespace of the calling thread, and gets SIGTERM when this process exits. */
export const runProgram: RunProgram = async (call) => {
  const subprocess = execa(call.program, call.arguments, {
    env: programEnvironment(),
    extendEnv: false,
    input: call.input ?? "",
    timeout: call.timeoutMs,
    forceKillAfterDelay: killDelayMs,
    encoding: "buffer",
    buffer: { stdout: false },
    maxBuffer: { stderr: largestErrorOutputBytes },
    stripFinalNewline: false,
    reject: false,
  });
  const output =
    call.onLine === undefined
      ? collect(subprocess.stdout, () => subprocess.kill())
      : readLinesOf(subprocess.stdout, call.onLine);
  const result = await subprocess;
  const cause = result.cause ?? result;
  if (result.timedOut) throw timedOut(call, cause);
  if (output.isTooLong()) throw tooLong(call.program, "64 MB", cause);
  if (result.isMaxBuffer) throw tooLong(call.program, "256 KB of errors", cause);
  if (result.signal !== undefined) throw killedBy(result.signal, call, cause);
  if (result.exitCode === undefined) throw notStarted(result.code ?? "unknown", call, cause);
  const { buffer, byteOffset, byteLength } = result.stderr;
  return {
    exitCode: result.exitCode,
    output: output.text(),
    errorOutput: Buffer.from(buffer, byteOffset, byteLength).toString(),
  };
};

interface Output {
  readonly isTooLong: () => boolean;
  /** Throws what a reader of lines threw. */
  readonly text: () => string;
}

/** Hands over lines as they come. After an error the rest is dropped: the program must be able to end. */
function readLinesOf(stream: Readable, onLine: (line: string) => void): Output {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  let failed: { readonly cause: unknown } | undefined;
  stream.on("data", (chunk: Buffer) => {
    if (failed !== undefined) return;
    const lines = (rest + decoder.write(chunk)).split("\n");
    rest = lines.pop() ?? "";
    try {
      for (const line of lines) onLine(line);
    } catch (cause) {
      failed = { cause };
    }
  });
  return {
    isTooLong: () => false,
    text: () => {
      if (failed !== undefined) throw failed.cause;
      const last = rest + decoder.end();
      if (last !== "") onLine(last);
      return "";
    },
  };
}

/** What a stream gives. Beyond {@link largestOutputBytes} it is closed, which ends children that write to it, too. */
function collect(stream: Readable, onTooLong: () => void): Output {
  const chunks: Buffer[] = [];
  let bytes = 0;
  stream.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= largestOutputBytes) {
      chunks.push(chunk);
      return;
    }
    onTooLong();
    stream.destroy();
  });
  return {
    isTooLong: () => bytes > largestOutputBytes,
    text: () => Buffer.concat(chunks).toString(),
  };
}

function tooLong(program: string, limit: string, cause: unknown): ProgramError {
  const detail = `it wrote more than ${limit} and was killed`;
  return new ProgramError(program, "output-too-long", detail, cause);
}
