/** Runs the machine's own programs by execa, without a shell (docs/decisions/0012). */
import { execa } from "execa";
import {
  killedBy,
  notStarted,
  ProgramError,
  programEnvironment,
  type RunProgram,
  timedOut,
} from "./program.ts";

/** Output beyond this is refused; 50,000 saved rules take about 8 MB. */
const largestOutputBytes = 64 * 1024 * 1024;
/** How long after SIGTERM a program that overran its time is killed. */
const killDelayMs = 1_000;

/** The program is in the network namespace of the calling thread, and gets SIGTERM when this process exits. */
export const runProgram: RunProgram = async (call) => {
  const result = await execa(call.program, call.arguments, {
    env: programEnvironment(),
    extendEnv: false,
    input: call.input ?? "",
    timeout: call.timeoutMs,
    forceKillAfterDelay: killDelayMs,
    encoding: "buffer",
    maxBuffer: largestOutputBytes,
    stripFinalNewline: false,
    reject: false,
  });
  const cause = result.cause ?? result;
  if (result.timedOut) throw timedOut(call, cause);
  if (result.isMaxBuffer) {
    const detail = `it wrote more than ${largestOutputBytes / 2 ** 20} MB and was killed`;
    throw new ProgramError(call.program, "output-too-long", detail, cause);
  }
  if (result.signal !== undefined) throw killedBy(result.signal, call, cause);
  if (result.exitCode === undefined) throw notStarted(result.code ?? "unknown", call, cause);
  return {
    exitCode: result.exitCode,
    output: textOf(result.stdout),
    errorOutput: textOf(result.stderr),
  };
};

function textOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString();
}
