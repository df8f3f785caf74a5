/** modprobe, which runs before the first sync if at all (docs/decisions/0012). */
import { killedBy, notStarted, programEnvironment, type RunProgram, timedOut } from "../program.ts";

/** How long after SIGTERM a program that overran its time is killed. */
const killDelayMs = 1_000;

/** By execa, which is loaded when a module is to be loaded: most nodes have all of them. */
export const runModprobe: RunProgram = async (call) => {
  const { execa } = await import("execa");
  const result = await execa(call.program, call.arguments, {
    env: programEnvironment(),
    input: call.input ?? "",
    timeout: call.timeoutMs,
    forceKillAfterDelay: killDelayMs,
    stripFinalNewline: false,
    reject: false,
  });
  const cause = result.cause ?? result;
  if (result.timedOut) throw timedOut(call, cause);
  if (result.signal !== undefined) throw killedBy(result.signal, call, cause);
  if (result.exitCode === undefined) throw notStarted(result.code ?? "unknown", call, cause);
  return { exitCode: result.exitCode, output: result.stdout, errorOutput: result.stderr };
};
