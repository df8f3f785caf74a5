/**
 * Reports why the program exits with code 1. The daemon writes log lines for log collectors. A command writes plain
 * text for people.
 */
import type { Clock } from "../base/clock.ts";
import { errorText } from "../base/error-text.ts";
import type { LogKeys } from "../base/log.ts";
import { escapeUnprintable } from "../base/printable.ts";
import type { LogFormat } from "../config/config.ts";
import { ConfigError } from "../config/config-error.ts";
import { formatJson, formatText } from "../daemon/log/log-format.ts";

export interface FatalOutlet {
  readonly clock: Pick<Clock, "nowMs">;
  readonly pid: number;
}

export interface FailureForm {
  readonly logFormat?: LogFormat;
  /** The command that a person ran: `kube-ipvs plan`. Undefined for a program that logs. */
  readonly caller?: string | undefined;
}

/**
 * Returns one line per configuration problem, or one line for any other error, each with a line end. With the JSON log
 * format, commands write JSON too.
 */
export function fatalText(
  error: unknown,
  outlet: FatalOutlet,
  { logFormat = "text", caller }: FailureForm,
): string {
  if (caller !== undefined && logFormat === "text") return plainText(error, caller);
  return linesOf(error).map(formatOf(outlet, logFormat)).join("");
}

/** Formats an error for a person: `kube-ipvs plan: --v "y": must be an integer`. */
function plainText(error: unknown, caller: string): string {
  return problemTexts(error)
    .map((text) => `${escapeUnprintable(`${caller}: ${text}`)}\n`)
    .join("");
}

function problemTexts(error: unknown): readonly string[] {
  if (!(error instanceof ConfigError)) return [errorText(error)];
  return error.problems.map(({ path, value, reason }) => {
    return `${path}${value === undefined ? "" : ` ${JSON.stringify(value)}`}: ${reason}`;
  });
}

function formatOf({ clock, pid }: FatalOutlet, form: LogFormat): (line: FatalLine) => string {
  const format = form === "json" ? formatJson : formatText;
  const head = { severity: "error", level: 0, timeMs: clock.nowMs(), pid } as const;
  return (line) => `${format({ ...head, ...line })}\n`;
}

interface FatalLine {
  readonly event: string;
  readonly keys: LogKeys;
}

/** The event that kube-proxy logs. */
const failed = "Command failed";

function linesOf(error: unknown): readonly FatalLine[] {
  if (!(error instanceof ConfigError)) return [{ event: failed, keys: { err: errorText(error) } }];
  return error.problems.map(({ path, value, reason }) => ({
    event: "Invalid configuration",
    keys: { path, ...(value === undefined ? {} : { value }), reason },
  }));
}

/** Formats an uncaught error, with its stack trace. */
export function uncaughtText(error: unknown, outlet: FatalOutlet, form: LogFormat): string {
  const stack = error instanceof Error && error.stack !== undefined ? { stack: error.stack } : {};
  const keys = { err: `kube-ipvs cannot continue: ${errorText(error)}`, ...stack };
  return formatOf(outlet, form)({ event: failed, keys });
}
