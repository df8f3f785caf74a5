import { once } from "node:events";
import { type Clock, sleep } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";

/** The parts of `process` that this module uses. Tests supply their own. */
export type ProcessLike = Pick<NodeJS.EventEmitter, "on" | "off"> & { exit(code: number): void };

/** A shutdown that takes longer is aborted. This is safe because the kernel state is consistent at all times. */
const stopDeadlineMs = 900;

const stopSignals = [
  { name: "SIGTERM", number: 15 },
  { name: "SIGINT", number: 2 },
] as const;

/** Stops what was started. */
export type Stop = () => Promise<void> | void;

/**
 * Runs `start`, waits for SIGTERM or SIGINT and then for `stopDelayMs`, stops what was started, and resolves. As
 * process 1, the program needs these listeners because the kernel drops signals that process 1 does not handle. A
 * signal during startup aborts the startup without a delay. If the shutdown hangs, the process exits with 0, because a
 * shutdown leaves the kernel state in place anyway. On a second signal, the process exits with 128 + n, as shells
 * expect. If `start` later reports a failure, stops what was started and rejects.
 */
export async function runUntilSignal(
  parts: {
    readonly clock: Clock;
    readonly log: Logger;
    /** The log message when stopping. Defaults to the daemon's message. */
    readonly stopEvent?: string;
    /** How long the program keeps running after the signal. Defaults to 0. */
    readonly stopDelayMs?: number;
  },
  start: (signal: AbortSignal, fail: (error: Error) => void) => Promise<Stop>,
  target: ProcessLike = process,
): Promise<void> {
  const { clock, log, stopEvent = "Shutting down, leaving kernel state in place" } = parts;
  const stopping = new AbortController();
  const failure = Promise.withResolvers<never>();
  const failing = new AbortController();
  // The promise may reject before anything awaits it.
  failure.promise.catch(() => failing.abort());
  let delayMs = 0;
  let cancelDeadline = (): void => {};
  const stopListening = onSignals(target, (name, number) => {
    if (stopping.signal.aborted) return target.exit(128 + number);
    log.info(stopEvent, { signal: name });
    cancelDeadline = clock.after(delayMs + stopDeadlineMs, () => {
      log.warn("Shutdown timed out", { deadline: `${stopDeadlineMs}ms` });
      target.exit(0);
    });
    stopping.abort();
  });
  // Waiting for a signal does not keep a Node.js process alive, but a timer does.
  const keepAlive = setInterval(() => {}, 2 ** 30);
  try {
    const stop = await start(stopping.signal, failure.reject);
    try {
      const { signal } = stopping;
      if (!signal.aborted) {
        delayMs = parts.stopDelayMs ?? 0;
        await Promise.race([once(signal, "abort"), failure.promise]);
        if (delayMs > 0) await sleep(clock, delayMs, failing.signal);
      }
    } catch (error) {
      cancelDeadline = clock.after(stopDeadlineMs, () => target.exit(1));
      throw error;
    } finally {
      await stop();
    }
  } catch (error) {
    // An aborted startup may fail with any error.
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

/** On an uncaught error, exits the process with 1 after `report` has written the error. */
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
 * Exits the process if a signal arrives before {@link runUntilSignal} listens. The exit code is 0 for the daemon, for
 * which a signal is the normal way to stop, and 128 + n for other commands. Without this, process 1 would ignore the
 * signal.
 */
export function endEarlyOnSignals(isDaemon: () => boolean, target: EarlyProcess = process): void {
  for (const { name, number } of stopSignals) {
    target.on(name, () => {
      // If there is another listener, it stops what was started.
      if (target.listenerCount(name) === 1) target.exit(isDaemon() ? 0 : 128 + number);
    });
  }
}

type EarlyProcess = ProcessLike & Pick<NodeJS.EventEmitter, "listenerCount">;
