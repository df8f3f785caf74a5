/** What a daemon asks of Node.js' engine while it runs; its flags are in toolchain/launcher.sh. See docs/decisions/0011. */
import { readdirSync, readFileSync } from "node:fs";
import { setPriority } from "node:os";
import { setFlagsFromString } from "node:v8";

const tasks = "/proc/self/task";
/** Threads on which the engine collects and compiles beside the event loop. */
const helperName = "V8Worker";
const helperNiceness = 10;

/**
 * Lets the event loop go before the engine's helpers where a processor has to do for both: a collection beside it
 * is else its longest block. No right is needed for that, and nothing is lost where it fails.
 */
export function yieldToEventLoop(): void {
  try {
    for (const task of readdirSync(tasks)) {
      const name = readFileSync(`${tasks}/${task}/comm`, "latin1").trimEnd();
      // setpriority(2) takes a thread for a process.
      if (name === helperName) setPriority(Number(task), helperNiceness);
    }
  } catch {
    return;
  }
}

/**
 * Until all is in the kernel once, each collection moves what it can: the peak is then. Later such a move would
 * only be a block of the event loop.
 */
export function keepRoomInHeap(): void {
  for (const flag of ["--no-optimize-for-size", "--heap-growing-percent=30"]) {
    setFlagsFromString(flag);
  }
}
