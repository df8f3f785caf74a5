/** Programs that run while we sync (docs/decisions/0012): the event loop does not stop for them. */
import { constants } from "node:os";
import { type ProgramEnd, runProgram as run } from "../../native-shim/run-program.ts";
import { errno, errnoName } from "../base/errno.ts";
import {
  killedBy,
  notStarted,
  type ProgramCall,
  ProgramError,
  programEnvironment,
  programFolders,
  type RunProgram,
  timedOut,
} from "./program.ts";

/** Output beyond this is refused; 50,000 saved rules take about 8 MB. */
const largestOutputBytes = 256 * 1024 * 1024;

/**
 * The machine's own programs, without a shell. The child is in the network namespace of the thread that
 * calls. However large we are, starting it takes the event loop less than a millisecond.
 */
export const runProgram: RunProgram = async (call) => {
  const end = await run({
    arguments: [call.program, ...call.arguments],
    environment: programEnvironment(),
    folders: programFolders(),
    input: Buffer.from(call.input ?? ""),
    timeoutMs: call.timeoutMs,
    maxOutputBytes: largestOutputBytes,
  });
  if (end.errno !== 0) throw stoppedError(call, end);
  if (end.signal !== 0) throw killedBy(signalName(end.signal), call);
  return {
    exitCode: end.exitCode,
    output: textOf(end.output),
    errorOutput: textOf(end.errorOutput),
  };
};

function stoppedError(call: ProgramCall, end: ProgramEnd): ProgramError {
  const code = errnoName(end.errno);
  if (end.operation === "start") return notStarted(code, call);
  if (end.errno === errno.ETIMEDOUT) return timedOut(call);
  if (end.errno === errno.EMSGSIZE) {
    const detail = `it wrote more than ${largestOutputBytes / 2 ** 20} MB and was stopped`;
    return new ProgramError(call.program, "output-too-long", detail);
  }
  return new ProgramError(call.program, "end-unknown", `how it ended is not known: ${code}`);
}

function signalName(number: number): string {
  const found = Object.entries(constants.signals).find(([, value]) => value === number);
  return found?.[0] ?? `signal ${number}`;
}

function textOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString();
}
