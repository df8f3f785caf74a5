/** Runs system programs with execa, without a shell (docs/decisions/0012). */
import { StringDecoder } from "node:string_decoder";
import { execa } from "execa";
import {
  killedBy,
  notStarted,
  type ProgramCall,
  ProgramError,
  programEnvironment,
  type RunProgram,
  timedOut,
} from "./program.ts";

/** Maximum size of output that is not read line by line. 50,000 saved rules take about 8 MB. */
const largestOutputBytes = 64 * 1024 * 1024;
/** Maximum length of a line. A rule with many matches takes a few kilobytes. */
const longestLine = 1024 * 1024;
/**
 * Maximum size of buffered stderr. stdout is not buffered by execa, because execa escapes all buffered output of a
 * failed program, which takes 1 s per MB.
 */
const largestErrorOutputBytes = 256 * 1024;
/** Delay between SIGTERM and SIGKILL for a program that exceeded its timeout. */
const killDelayMs = 1_000;

/** Runs a program in the calling thread's network namespace. The program gets SIGTERM when this process exits. */
export const runProgram: RunProgram = async (call) => {
  const subprocess = execa(call.program, call.arguments, {
    env: programEnvironment(),
    extendEnv: false,
    input: call.input ?? "",
    timeout: call.timeoutMs,
    forceKillAfterDelay: killDelayMs,
    // Children are killed too, because a child that keeps the output open would prevent the run from ending.
    killDescendants: true,
    encoding: "buffer",
    buffer: { stdout: false },
    maxBuffer: { stderr: largestErrorOutputBytes },
    stripFinalNewline: false,
    reject: false,
  });
  const output = call.onLine === undefined ? keptOutput(call) : outputByLines(call, call.onLine);
  let failed: { readonly cause: unknown } | undefined;
  subprocess.stdout.on("data", (chunk: Buffer) => {
    if (failed !== undefined) return;
    try {
      output.take(chunk);
    } catch (cause) {
      failed = { cause };
      subprocess.kill();
    }
  });
  const result = await subprocess;
  const cause = result.cause ?? result;
  if (failed !== undefined) throw failed.cause;
  if (result.timedOut) throw timedOut(call, cause);
  if (result.isMaxBuffer) throw tooLong(call, "256 KB of errors", cause);
  if (result.signal !== undefined) throw killedBy(result.signal, call, cause);
  if (result.exitCode === undefined) throw notStarted(result.code ?? "unknown", call, cause);
  const { buffer, byteOffset, byteLength } = result.stderr;
  return {
    exitCode: result.exitCode,
    output: output.end(),
    errorOutput: Buffer.from(buffer, byteOffset, byteLength).toString(),
  };
};

interface Output {
  /** Throws if the output is too long; also rethrows the errors of `onLine`. */
  take(chunk: Buffer): void;
  /** Returns the buffered output. Rethrows the errors of `onLine`. */
  end(): string;
}

function outputByLines(call: ProgramCall, onLine: (line: string) => void): Output {
  const decoder = new StringDecoder("utf8");
  let rest = "";
  return {
    take(chunk) {
      const lines = (rest + decoder.write(chunk)).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) onLine(line);
      if (rest.length > longestLine) throw tooLong(call, "1 MB in a line");
    },
    end() {
      const last = rest + decoder.end();
      if (last !== "") onLine(last);
      return "";
    },
  };
}

function keptOutput(call: ProgramCall): Output {
  const chunks: Buffer[] = [];
  let bytes = 0;
  return {
    take(chunk) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > largestOutputBytes) throw tooLong(call, "64 MB");
    },
    end: () => Buffer.concat(chunks).toString(),
  };
}

function tooLong({ program }: ProgramCall, limit: string, cause?: unknown): ProgramError {
  const detail = `it wrote more than ${limit} and was killed`;
  return new ProgramError(program, "output-too-long", detail, cause);
}
