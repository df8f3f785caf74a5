import type { Logger } from "./log.ts";

/** For promises that no caller awaits: logs a rejection, which would otherwise terminate the process. */
export function background(promise: Promise<unknown>, log: Logger, what: string): void {
  promise.catch((error: unknown) => log.error("Background work failed", { what, err: error }));
}
