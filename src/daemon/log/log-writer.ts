import type { Clock } from "../../base/clock.ts";
import type { Logger, LogKeys } from "../../base/log.ts";
import type { LogFormat } from "../../config/config.ts";
import { formatJson, formatText, type LogFormatter, type Severity } from "./log-format.ts";
import { type LeftOut, LogLimiter } from "./log-limiter.ts";

export interface LogOptions {
  readonly format: LogFormat;
  readonly verbosity: number;
}

export interface LogOutlet {
  readonly clock: Clock;
  /** Writes a line, which includes its newline. */
  readonly write: (line: string) => void;
  readonly pid: number;
}

/**
 * Writes log lines. If the same line repeats too often, writes a count instead. Info lines are not limited from
 * verbosity 2.
 */
export class LogWriter implements Logger {
  readonly #outlet: LogOutlet;
  readonly #limiter: LogLimiter;
  readonly #format: LogFormatter;
  #verbosity: number;

  constructor(outlet: LogOutlet, { format, verbosity }: LogOptions) {
    this.#outlet = outlet;
    this.#format = format === "json" ? formatJson : formatText;
    this.#limiter = new LogLimiter(outlet.clock, (leftOut) => this.#summarize(leftOut));
    this.#verbosity = verbosity;
  }

  /** Sets the verbosity of this logger and of all loggers derived from it by {@link with}. */
  setVerbosity(verbosity: number): void {
    this.#verbosity = verbosity;
  }

  error(event: string, keys?: LogKeys): void {
    this.#writeLimited("error", event, keys);
  }

  warn(event: string, keys?: LogKeys): void {
    this.#writeLimited("warn", event, keys);
  }

  info(event: string, keys?: LogKeys): void {
    if (this.#verbosity < 2) this.#writeLimited("info", event, keys);
    else this.#write("info", 0, event, keys);
  }

  verbose(level: number, event: string, keys?: LogKeys): void {
    if (level <= this.#verbosity) this.#write("info", level, event, keys);
  }

  with(keys: LogKeys): Logger {
    return {
      error: (event, own) => this.error(event, { ...keys, ...own }),
      warn: (event, own) => this.warn(event, { ...keys, ...own }),
      info: (event, own) => this.info(event, { ...keys, ...own }),
      verbose: (level, event, own) => this.verbose(level, event, { ...keys, ...own }),
      with: (more) => this.with({ ...keys, ...more }),
    };
  }

  #writeLimited(severity: Severity, event: string, keys: LogKeys = {}): void {
    const { reason } = keys;
    const problem = { severity, event, reason: typeof reason === "string" ? reason : "" };
    if (this.#limiter.admits(problem)) this.#write(severity, 0, event, keys);
  }

  #summarize({ severity, event, reason, count }: LeftOut): void {
    const keys = { of: event, ...(reason === "" ? {} : { reason }), count };
    this.#write(severity, 0, "Suppressed similar messages", keys);
  }

  #write(severity: Severity, level: number, event: string, keys: LogKeys = {}): void {
    const { clock, pid, write } = this.#outlet;
    write(`${this.#format({ severity, level, event, timeMs: clock.nowMs(), pid, keys })}\n`);
  }
}
