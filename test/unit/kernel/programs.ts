/** Fake programs that answer from a table, and a record of their calls. */
import {
  type ProgramCall,
  ProgramError,
  type ProgramResult,
  type RunProgram,
} from "../../../src/kernel/program.ts";

/** One answer for each call. The last one repeats. Errors are thrown. */
export type ProgramAnswer = Partial<ProgramResult> | Error;

/** Programs that are not in the table are not installed. */
export function programs(
  answers: Readonly<Record<string, ProgramAnswer | readonly ProgramAnswer[]>>,
): { readonly run: RunProgram; readonly calls: readonly ProgramCall[] } {
  const calls: ProgramCall[] = [];
  const run: RunProgram = async (call) => {
    const before = calls.filter(({ program }) => program === call.program).length;
    calls.push(call);
    const given = answers[call.program];
    const list = Array.isArray(given) ? given : [given];
    const answer: ProgramAnswer | undefined = list[Math.min(before, list.length - 1)];
    if (answer === undefined) throw new ProgramError(call.program, "not-found", "not installed");
    if (answer instanceof Error) throw answer;
    return { exitCode: 0, output: "", errorOutput: "", ...answer };
  };
  return { run, calls };
}
