/** A log line's fields besides its event: short facts, printed as `key="value"`. */
export type LogKeys = Readonly<Record<string, unknown>>;

/**
 * Log lines are events with keys. `event` is a fixed sentence ("SyncProxyRules complete"); everything that varies is a
 * key. If an object is skipped or invalid, the key `reason` is one of the codes that metrics and tests use.
 */
export interface Logger {
  error(event: string, keys?: LogKeys): void;
  warn(event: string, keys?: LogKeys): void;
  info(event: string, keys?: LogKeys): void;
  /** Writes an info line if the verbosity (`-v`) is at least `level`. */
  verbose(level: number, event: string, keys?: LogKeys): void;
  /** Returns a logger that adds these keys to every line. */
  with(keys: LogKeys): Logger;
}

/** Returns a logger that drops info lines but keeps `verbose` lines. */
export function withoutInfo(log: Logger): Logger {
  return {
    error: (...line) => log.error(...line),
    warn: (...line) => log.warn(...line),
    info: () => {},
    verbose: (...line) => log.verbose(...line),
    with: (keys) => withoutInfo(log.with(keys)),
  };
}

/** Logs nothing; for tests and defaults. */
export const silentLogger: Logger = {
  error() {},
  warn() {},
  info() {},
  verbose() {},
  with: () => silentLogger,
};
