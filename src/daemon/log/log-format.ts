import { errorText } from "../../base/error-text.ts";
import type { LogKeys } from "../../base/log.ts";
import { parseJson } from "../../base/parse-json.ts";
import { escapeUnprintable } from "../../base/printable.ts";

export type Severity = "info" | "warn" | "error";

export interface LogLine {
  readonly severity: Severity;
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
  readonly pid: number;
  /** Lowest `-v` at which the line is printed. Lines of level 0 are always printed. */
  readonly level: number;
  readonly event: string;
  readonly keys: LogKeys;
}

/** Formats a line, without a trailing newline. */
export type LogFormatter = (line: LogLine) => string;

/** Longer values are truncated so that a malicious object cannot fill the disk. */
const maxValueLength = 2_000;

/**
 * Formats a line like klog, as in kube-proxy: `I0102 15:04:05.000000       1 kube-ipvs:1] "Event" key="value" n=1
 * list=["a","b"]`. Log collectors expect a source file and line number, so `kube-ipvs:1` takes their place. Uses
 * local time, as klog does.
 */
export function formatText({ severity, timeMs, pid, event, keys }: LogLine): string {
  const letter = severity.charAt(0).toUpperCase();
  const pairs = Object.entries(keys).map(([key, value]) => ` ${key}=${textValue(value)}`);
  const head = `${letter}${klogTime(new Date(timeMs))} ${String(pid).padStart(7)} kube-ipvs:1]`;
  return `${head} ${quoted(event)}${pairs.join("")}`;
}

/**
 * Formats one JSON object per line, with the keys that Kubernetes components use: `ts` (ms), `v`, `msg`, `err` and
 * others.
 */
export function formatJson({ severity, timeMs, level, event, keys }: LogLine): string {
  const fixed = { ts: timeMs, level: severity, v: level, msg: event };
  const plain = Object.entries(keys).map(([key, value]) => [key, jsonValue(value)] as const);
  // The fixed keys are spread twice: the first time so that they are printed first, the second time so that they
  // cannot be overwritten.
  return escapeUnprintable(JSON.stringify({ ...fixed, ...Object.fromEntries(plain), ...fixed }));
}

function klogTime(date: Date): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = `${two(date.getMonth() + 1)}${two(date.getDate())}`;
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  return `${day} ${time}.${String(date.getMilliseconds()).padStart(3, "0")}000`;
}

function textValue(value: unknown): string {
  if (typeof value === "bigint") return value.toString();
  const plain = jsonValue(value);
  return plain === undefined ? "undefined" : escapeUnprintable(JSON.stringify(plain));
}

/** Converts a value to one that JSON can represent. Truncates long strings. */
function jsonValue(value: unknown): unknown {
  if (typeof value === "string") return cut(value);
  if (value instanceof Error) return cut(errorText(value));
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "function" || typeof value === "symbol") return String(value);
  if (typeof value !== "object" || value === null) return value;
  const text = objectText(value);
  return text.length <= maxValueLength ? parseJson(text) : cut(text);
}

/** Never throws, so a line is logged even for values such as bigints and cyclic objects. */
function objectText(value: object): string {
  try {
    return JSON.stringify(value, (_, part: unknown) =>
      typeof part === "bigint" ? part.toString() : part,
    );
  } catch (error) {
    return JSON.stringify(`(${errorText(error)})`);
  }
}

function cut(text: string): string {
  if (text.length <= maxValueLength) return text;
  return `${text.slice(0, maxValueLength)}… (${text.length} characters)`;
}

function quoted(text: string): string {
  return escapeUnprintable(JSON.stringify(text));
}
