/** What a daemon asks of Node.js' engine while it runs; its flags are in toolchain/launcher.sh. See docs/decisions/0011. */
import { setFlagsFromString } from "node:v8";

/**
 * Not in the launcher: with either of them there the engine would refuse the compiled code that Node.js brings for its
 * own modules, and compile them anew at each start.
 */
const flagsOfLists = ["--optimize-for-size", "--no-maglev"];

/** The engine begins to collect, in steps, where this much more is held outside of its heap. */
const externalPressureBytes = 65 * 1024 * 1024;

/** Small collections are short then: to share one with a helper thread is to wait for it where there is one processor. */
const flagsOnceSynced = [
  "--no-optimize-for-size",
  "--heap-growing-percent=20",
  "--no-parallel-scavenge",
];

/** Before objects are read. */
export function spareHeap(): void {
  for (const flag of flagsOfLists) setFlagsFromString(flag);
}

/**
 * Until all is in the kernel once, each collection moves what it can: the peak is then. Later such a move would
 * only be a block of the event loop.
 */
export function keepRoomInHeap(): void {
  for (const flag of flagsOnceSynced) setFlagsFromString(flag);
}

/**
 * Begins a collection, in steps and beside us, so that it does not fall into the first changes. What is asked for is
 * never touched: address space, which that collection gives back.
 */
export function collectInSteps(): void {
  try {
    void new ArrayBuffer(externalPressureBytes);
  } catch (error) {
    // Where address space is limited it is left to the engine when it collects.
    if (!(error instanceof RangeError)) throw error;
  }
}
