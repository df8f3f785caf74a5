import { escapeUnprintable } from "../base/printable.ts";
import type { LogFormat } from "./config.ts";

/** One thing wrong with the configuration. */
export interface ConfigProblem {
  /** The field in the file (`ipvs.scheduler`), the flag (`--ipvs-scheduler`), or the file itself. */
  readonly path: string;
  /** The offending value; absent where there is none to show. */
  readonly value?: unknown;
  readonly reason: string;
}

const shownValueLength = 100;

/** Everything that is wrong with the configuration, all at once. */
export class ConfigError extends Error {
  readonly problems: readonly ConfigProblem[];
  /** How to log them, as far as the configuration could be read. */
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

/** JSON escapes line ends and control characters, so a value cannot break the line. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length <= shownValueLength ? text : `${text.slice(0, shownValueLength)}…`;
}
