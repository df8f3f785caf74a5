import { once } from "node:events";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";

/** What of the process we touch; tests bring their own. */
export type ProcessLike = Pick<NodeJS.EventEmitter, "on" | "off"> & { exit(code: number): void };

/** A stop that takes longer is cut short; the kernel state is sound at every moment. */
const stopDeadlineMs = 900;

const stopSignals = [
  { name: "SIGTERM", number: 15 },
  { name: "SIGINT", number: 2 },
] as const;

/** Ends what was started. */
export type Stop = () => Promise<void> | void;

/**
 * Runs `start`, waits for SIGTERM or SIGINT, ends what was started and resolves. The listeners are needed
 * as process 1 too, where the kernel drops signals that have none. A signal during the start aborts it. A
 * stop that hangs, and a second signal, end the process at once: with 0, since leaving the kernel as it is
 * is what a stop does; with 128 + n as shells expect. A failure that `start` reports later ends what was started
 * too, and rejects.
 */
export async function runUntilSignal(
  parts: {
    readonly clock: Clock;
    readonly log: Logger;
    /** What a stop says; absent: the daemon's words. */
    readonly stopEvent?: string;
  },
  start: (signal: AbortSignal, fail: (error: Error) => void) => Promise<Stop>,
  target: ProcessLike = process,
): Promise<void> {
  const { clock, log, stopEvent = "Shutting down, leaving kernel state in place" } = parts;
  const stopping = new AbortController();
  const failure = Promise.withResolvers<never>();
  // Nobody may wait for it yet.
  failure.promise.catch(() => {});
  let cancelDeadline = (): void => {};
  const stopListening = onSignals(target, (name, number) => {
    if (stopping.signal.aborted) return target.exit(128 + number);
    log.info(stopEvent, { signal: name });
    cancelDeadline = clock.after(stopDeadlineMs, () => {
      log.warn("Shutdown timed out", { deadline: `${stopDeadlineMs}ms` });
      target.exit(0);
    });
    stopping.abort();
  });
  // Waiting for a signal does not keep a Node.js process alive: the timer does.
  const keepAlive = setInterval(() => {}, 2 ** 30);
  try {
    const stop = await start(stopping.signal, failure.reject);
    try {
      const { signal } = stopping;
      if (!signal.aborted) await Promise.race([once(signal, "abort"), failure.promise]);
    } catch (error) {
      cancelDeadline = clock.after(stopDeadlineMs, () => target.exit(1));
      throw error;
    } finally {
      await stop();
    }
  } catch (error) {
    // A start that was cut short may fail in any way.
    if (!stopping.signal.aborted) throw error;
    log.verbose(1, "Startup aborted", { err: error });
  } finally {
    clearInterval(keepAlive);
    cancelDeadline();
    stopListening();
  }
}

function onSignals(
  target: ProcessLike,
  callback: (name: string, number: number) => void,
): () => void {
  const listeners = stopSignals.map(({ name, number }) => ({
    name,
    listener: () => callback(name, number),
  }));
  for (const { name, listener } of listeners) target.on(name, listener);
  return () => {
    for (const { name, listener } of listeners) target.off(name, listener);
  };
}

/** An error that nobody caught ends the process with 1, after `report` wrote why. */
export function exitOnUncaught(
  report: (error: unknown) => void,
  target: ProcessLike = process,
): void {
  const die = (error: unknown): void => {
    try {
      report(error);
    } finally {
      target.exit(1);
    }
  };
  target.on("uncaughtException", die);
  target.on("unhandledRejection", die);
}

/**
 * Ends the process on a signal that comes before anything was begun, or {@link runUntilSignal} listens: with 0, since a
 * daemon that is stopped is no failure; with 128 + n where a command is cut short. Process 1 would not end at all.
 */
export function endEarlyOnSignals(isDaemon: () => boolean, target: EarlyProcess = process): void {
  for (const { name, number } of stopSignals) {
    target.on(name, () => {
      // Whoever listens too ends what was begun.
      if (target.listenerCount(name) === 1) target.exit(isDaemon() ? 0 : 128 + number);
    });
  }
}

type EarlyProcess = ProcessLike & Pick<NodeJS.EventEmitter, "listenerCount">;
