import type { Logger } from "./log.ts";

/** Lets a promise run that nobody awaits; a rejection is logged instead of ending the process. */
export function background(promise: Promise<unknown>, log: Logger, what: string): void {
  promise.catch((error: unknown) => log.error("Background work failed", { what, err: error }));
}
