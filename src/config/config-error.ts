import { escapeUnprintable } from "../base/printable.ts";
import type { LogFormat } from "./config.ts";

export interface ConfigProblem {
  /** The field in the file (`ipvs.scheduler`), the flag (`--ipvs-scheduler`), or the file itself. */
  readonly path: string;
  /** The invalid value. Undefined if there is no value to show. */
  readonly value?: unknown;
  readonly reason: string;
}

const shownValueLength = 100;

/** Reports all problems in the configuration together. */
export class ConfigError extends Error {
  readonly problems: readonly ConfigProblem[];
  /** Log format for this error. Undefined if reading the configuration failed before the format was known. */
  readonly logFormat: LogFormat | undefined;

  constructor(problems: readonly ConfigProblem[], logFormat?: LogFormat) {
    super(escapeUnprintable(`Invalid configuration: ${problems.map(problemText).join("; ")}`));
    this.name = "ConfigError";
    this.problems = problems;
    this.logFormat = logFormat;
  }
}

function problemText({ path, value, reason }: ConfigProblem): string {
  return value === undefined ? `${path}: ${reason}` : `${path}: ${shown(value)}: ${reason}`;
}

/** Formats a value as JSON, which escapes line ends and control characters, so that the value cannot break a log line. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length <= shownValueLength ? text : `${text.slice(0, shownValueLength)}…`;
}
