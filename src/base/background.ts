import type { Logger } from "./log.ts";

/** Logs the rejection of a promise that no caller awaits. Without this, the rejection would terminate the process. */
export function background(promise: Promise<unknown>, log: Logger, what: string): void {
  promise.catch((error: unknown) => log.error("Background work failed", { what, err: error }));
}
