import type { Logger, LogKeys } from "../../src/base/log.ts";

export interface RecordedLine {
  readonly level: "error" | "warn" | "info" | "verbose";
  readonly event: string;
  readonly keys: LogKeys;
}

/** Records lines of every level. */
export class RecordingLogger implements Logger {
  readonly lines: RecordedLine[];
  readonly #keys: LogKeys;

  constructor(lines: RecordedLine[] = [], keys: LogKeys = {}) {
    this.lines = lines;
    this.#keys = keys;
  }

  error(event: string, keys: LogKeys = {}): void {
    this.#record("error", event, keys);
  }

  warn(event: string, keys: LogKeys = {}): void {
    this.#record("warn", event, keys);
  }

  info(event: string, keys: LogKeys = {}): void {
    this.#record("info", event, keys);
  }

  verbose(_level: number, event: string, keys: LogKeys = {}): void {
    this.#record("verbose", event, keys);
  }

  with(keys: LogKeys): Logger {
    return new RecordingLogger(this.lines, { ...this.#keys, ...keys });
  }

  #record(level: RecordedLine["level"], event: string, keys: LogKeys): void {
    this.lines.push({ level, event, keys: { ...this.#keys, ...keys } });
  }
}
