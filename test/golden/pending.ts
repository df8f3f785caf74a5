/**
 * What does not match yet, in one place: recorded files that are left out of the comparison, each with what
 * it waits for. One that would match in every step is reported and must leave this list.
 */
import type { StateFile } from "./kernel-state.ts";

export const pendingFiles: ReadonlyMap<StateFile, string> = new Map();
