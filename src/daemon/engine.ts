/** What a daemon asks of Node.js' engine while it runs; its flags are in toolchain/launcher.sh. See docs/decisions/0011. */
import { setFlagsFromString } from "node:v8";

/**
 * Until all is in the kernel once, each collection moves what it can: the peak is then. Later such a move would
 * only be a block of the event loop.
 */
export function keepRoomInHeap(): void {
  for (const flag of ["--no-optimize-for-size", "--heap-growing-percent=30"]) {
    setFlagsFromString(flag);
  }
}
