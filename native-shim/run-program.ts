/** Programs that run beside the event loop: gives `run` of the addon the shape of `program.d.ts`. */
import { addon } from "./load-addon.ts";
import type { ProgramEnd, ProgramRequest } from "./program.d.ts";

export type { ProgramEnd, ProgramRequest } from "./program.d.ts";

/**
 * Runs a program in the network namespace of the calling thread, on a thread of its own: the event loop is
 * not stopped for the process to begin, however large it is, and is kept alive until it has ended. What
 * the program leaves behind that still holds its outputs is not waited for. When the environment ends
 * (process exit, a worker's end), it gets SIGTERM. Throws TypeError for wrong arguments, a NUL among
 * them, and an Error with `errno` when there is no thread or memory.
 */
export function runProgram(request: ProgramRequest): Promise<ProgramEnd> {
  if (!stopsAtExit) stopAtExit();
  const { promise, resolve } = Promise.withResolvers<ProgramEnd>();
  const environment = Object.entries(request.environment).map(
    ([name, value]) => `${name}=${value}`,
  );
  addon().run(
    listOf(request.arguments),
    listOf(environment),
    listOf(request.folders),
    request.input,
    request.timeoutMs,
    request.maxOutputBytes,
    resolve,
  );
  return promise;
}

let stopsAtExit = false;

/** The end of a worker, and one without process.exit(), are seen by the addon. */
function stopAtExit(): void {
  process.once("exit", () => addon().abandon());
  stopsAtExit = true;
}

/** The strings one after another, each with its NUL; one inside would make two of one. */
function listOf(strings: readonly string[]): Uint8Array {
  const odd = strings.find((string) => string.includes("\0"));
  if (odd !== undefined)
    throw new TypeError(`A NUL cannot be given to a program: ${JSON.stringify(odd)}`);
  return Buffer.from(strings.map((string) => `${string}\0`).join(""));
}
