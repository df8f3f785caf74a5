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
  /** Takes a line with its line end. */
  readonly write: (line: string) => void;
  readonly pid: number;
}

/** What a logger and those made of it have in common. */
interface Shared {
  readonly limiter: LogLimiter;
  verbosity: number;
}

/** Writes log lines; a flood of the same warning or error becomes a number. */
export class LogWriter implements Logger {
  readonly #outlet: LogOutlet;
  readonly #shared: Shared;
  readonly #format: LogFormatter;
  readonly #keys: LogKeys;

  constructor(
    outlet: LogOutlet,
    { format, verbosity }: LogOptions,
    parent: { readonly shared?: Shared; readonly keys?: LogKeys } = {},
  ) {
    this.#outlet = outlet;
    this.#format = format === "json" ? formatJson : formatText;
    const limiter = new LogLimiter(outlet.clock, this.#summarise.bind(this));
    this.#shared = parent.shared ?? { limiter, verbosity };
    this.#keys = parent.keys ?? {};
  }

  /** Changes it for this logger and all made by {@link with}. */
  setVerbosity(verbosity: number): void {
    this.#shared.verbosity = verbosity;
  }

  error(event: string, keys?: LogKeys): void {
    this.#writeLimited("error", event, keys);
  }

  warn(event: string, keys?: LogKeys): void {
    this.#writeLimited("warn", event, keys);
  }

  info(event: string, keys?: LogKeys): void {
    this.#write("info", 0, event, keys);
  }

  verbose(level: number, event: string, keys?: LogKeys): void {
    if (level <= this.#shared.verbosity) this.#write("info", level, event, keys);
  }

  with(keys: LogKeys): Logger {
    const format = this.#format === formatJson ? "json" : "text";
    return new LogWriter(
      this.#outlet,
      { format, verbosity: this.#shared.verbosity },
      { shared: this.#shared, keys: { ...this.#keys, ...keys } },
    );
  }

  #writeLimited(severity: Severity, event: string, keys: LogKeys = {}): void {
    const { reason } = keys;
    const problem = { severity, event, reason: typeof reason === "string" ? reason : "" };
    if (this.#shared.limiter.admits(problem)) this.#write(severity, 0, event, keys);
  }

  #summarise({ severity, event, reason, count }: LeftOut): void {
    const keys = { of: event, ...(reason === "" ? {} : { reason }), count };
    this.#write(severity, 0, "Suppressed similar messages", keys);
  }

  #write(severity: Severity, level: number, event: string, keys: LogKeys = {}): void {
    const { clock, pid, write } = this.#outlet;
    const line = { severity, level, event, timeMs: clock.nowMs(), pid };
    write(`${this.#format({ ...line, keys: { ...this.#keys, ...keys } })}\n`);
  }
}
