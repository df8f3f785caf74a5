import { parseDuration } from "../base/duration.ts";
import { type Cidr, parseCidr, parseIpAddress } from "../base/ip.ts";
import { isRecord } from "../base/is-record.ts";
import type { Field, FieldKind, FieldValues, VmoduleItem } from "./field.ts";

/** A value, or why there is none. */
export type Reading<T> = { readonly value: T } | { readonly reason: string };

interface KindReader<T> {
  /** From a flag, or a default. */
  fromText(text: string): Reading<T>;
  /** From the file: JSON types. Absent: a string there too. */
  fromFile?(value: unknown): Reading<T>;
  /** Why a value of the file that is not a string is wrong; absent: `must be a string`. */
  readonly stringReason?: string;
}

const durationReason = 'must be a duration string such as "30s"';

const readers: { readonly [K in FieldKind]: KindReader<FieldValues[K]> } = {
  text: { fromText: (text) => ({ value: text }) },
  boolean: {
    fromText: readBoolean,
    fromFile: (value) =>
      typeof value === "boolean" ? { value } : { reason: "must be true or false" },
  },
  integer: { fromText: (text) => readInteger(decimal(text)), fromFile: readInteger },
  float: { fromText: (text) => readNumber(decimal(text)), fromFile: readNumber },
  duration: { fromText: readDuration, stringReason: durationReason },
  ip: { fromText: (text) => found(parseIpAddress(text), "must be an IP address") },
  listen: { fromText: readListen },
  texts: {
    fromText: (text) => ({ value: splitCommas(text) }),
    fromFile: readTexts,
  },
  "comma-list": { fromText: (text) => ({ value: splitCommas(text) }) },
  cidrs: { fromText: (text) => readCidrs(splitCommas(text)), fromFile: readCidrList },
  gates: { fromText: readGateText, fromFile: readGateMap },
  "duration-or-nanoseconds": {
    fromText: readDuration,
    fromFile: (value) =>
      typeof value === "number" ? { value: value / 1e6 } : readDuration(String(value)),
  },
  vmodule: { fromText: readVmoduleText, fromFile: readVmoduleList },
  quantity: { fromText: readQuantity, fromFile: readFileQuantity },
  "port-range": { fromText: readPortRange },
};

/** Reads a flag's value or a default. */
export function readText(field: Pick<Field, "kind"> & Limits, text: string): Reading<unknown> {
  return limited(field, readers[field.kind].fromText(text));
}

/** Reads a value of the file; undefined where it says nothing: null, or an empty or zero that is not kept. */
export function readFileValue(field: Field, value: unknown): Reading<unknown> | undefined {
  if (value === undefined || value === null) return undefined;
  if (value === "" && field.keepsZero !== true) return undefined;
  const reading = readKind(readers[field.kind], value);
  const isZero = "value" in reading && reading.value === 0;
  return isZero && field.keepsZero !== true ? undefined : limited(field, reading);
}

function readKind(reader: KindReader<unknown>, value: unknown): Reading<unknown> {
  if (reader.fromFile !== undefined) return reader.fromFile(value);
  if (typeof value === "string") return reader.fromText(value);
  return { reason: reader.stringReason ?? "must be a string" };
}

type Limits = Pick<Field, "isPositive" | "min" | "max" | "words">;

/** Checks what the row says beside the kind. */
function limited(limits: Limits, reading: Reading<unknown>): Reading<unknown> {
  if ("reason" in reading) return reading;
  const { value } = reading;
  const { words, min, max } = limits;
  if (typeof value === "string" && words !== undefined && !words.includes(value)) {
    return { reason: `must be one of ${words.join(", ")}` };
  }
  if (typeof value !== "number") return reading;
  if (limits.isPositive === true && value <= 0) return { reason: "must be greater than zero" };
  if (max !== undefined && (value > max || value < (min ?? -max))) {
    return { reason: `must be from ${min} to ${max}` };
  }
  if (min !== undefined && value < min) return { reason: `must be at least ${min}` };
  return reading;
}

function found<T>(value: T | undefined, reason: string): Reading<T> {
  return value === undefined ? { reason } : { value };
}

/** The words that Go takes for booleans. */
function readBoolean(text: string): Reading<boolean> {
  if (/^(?:1|t|T|true|TRUE|True)$/.test(text)) return { value: true };
  if (/^(?:0|f|F|false|FALSE|False)$/.test(text)) return { value: false };
  return { reason: "must be true or false" };
}

function readInteger(value: unknown): Reading<number> {
  return Number.isSafeInteger(value)
    ? { value: value as number }
    : { reason: "must be an integer" };
}

function readNumber(value: unknown): Reading<number> {
  return Number.isFinite(value) ? { value: value as number } : { reason: "must be a number" };
}

/** NaN for what is no decimal number; `Number` alone takes blanks and hexadecimal too. */
function decimal(text: string): number {
  return /^[+-]?(?:\d+\.?\d*|\.\d+)$/.test(text) ? Number(text) : Number.NaN;
}

function readDuration(text: string): Reading<number> {
  return found(parseDuration(text), durationReason);
}

function readListen(text: string): Reading<FieldValues["listen"]> {
  if (text === "") return { value: undefined };
  const bare = parseIpAddress(text);
  if (bare !== undefined) return { value: { address: bare } };
  const [host, port] = splitPort(text);
  const address = parseIpAddress(host);
  if (address === undefined || Number.isNaN(port)) {
    return {
      reason: "must be an IP address with an optional port, such as 0.0.0.0:10256 or [::]:10256",
    };
  }
  if (port < 1 || port > 65_535) return { reason: "must have a port from 1 to 65535" };
  return { value: { address, port } };
}

/** Host without brackets and port; an IPv6 address without brackets has no port that could be recognized. */
function splitPort(text: string): readonly [host: string, port: number] {
  const colon = text.lastIndexOf(":");
  const host = text.slice(0, colon);
  const port = decimal(text.slice(colon + 1));
  const isBracketed = host.startsWith("[") && host.endsWith("]");
  if (host.includes(":") !== isBracketed) return [host, Number.NaN];
  return [isBracketed ? host.slice(1, -1) : host, port];
}

/** As upstream, blanks are not cut off. */
function splitCommas(text: string): readonly string[] {
  return text === "" ? [] : text.split(",");
}

function readTexts(value: unknown): Reading<readonly string[]> {
  const isList = Array.isArray(value) && value.every((item) => typeof item === "string");
  return isList ? { value } : { reason: "must be a list of strings" };
}

function readCidrList(value: unknown): Reading<readonly Cidr[]> {
  const texts = readTexts(value);
  return "reason" in texts ? texts : readCidrs(texts.value);
}

/** Reads networks; those that are none are named. */
export function readCidrs(texts: readonly string[]): Reading<readonly Cidr[]> {
  const cidrs = texts.flatMap((text) => parseCidr(text) ?? []);
  if (cidrs.length === texts.length) return { value: cidrs };
  const wrong = texts.filter((text) => parseCidr(text) === undefined);
  const names = wrong.map((text) => JSON.stringify(text)).join(", ");
  return { reason: `${names} is not a network (CIDR)` };
}

/** Upstream compares each file's name with patterns of letters, digits, `_`, `*`, `?` and ranges. */
function readVmoduleText(text: string): Reading<readonly VmoduleItem[]> {
  const items: VmoduleItem[] = [];
  for (const pair of splitCommas(text)) {
    const [filePattern = "", number = ""] = pair.split("=", 2);
    const verbosity = decimal(number);
    if (filePattern === "" || !isVerbosity(verbosity)) {
      return { reason: `${JSON.stringify(pair)} is not pattern=N` };
    }
    items.push({ filePattern, verbosity });
  }
  return { value: items };
}

function readVmoduleList(value: unknown): Reading<readonly VmoduleItem[]> {
  const wrong = { reason: "must be a list of filePattern and verbosity pairs" };
  if (!Array.isArray(value)) return wrong;
  const items: VmoduleItem[] = [];
  for (const item of value) {
    if (!isRecord(item)) return wrong;
    const { filePattern, verbosity } = item;
    if (typeof filePattern !== "string" || filePattern === "" || !isVerbosity(verbosity)) {
      return wrong;
    }
    items.push({ filePattern, verbosity });
  }
  return { value: items };
}

function isVerbosity(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 0x7fffffff;
}

/** The form of k8s.io/apimachinery's resource.Quantity; the amount itself changes nothing here. */
function readQuantity(text: string): Reading<string> {
  const isQuantity = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?$/.test(text);
  return isQuantity ? { value: text } : { reason: "must be a quantity such as 0 or 64Ki" };
}

/** A bare number is an amount too. */
function readFileQuantity(value: unknown): Reading<string> {
  return readQuantity(["string", "number"].includes(typeof value) ? String(value) : "");
}

/** As ParsePortRange of k8s.io/apimachinery. */
function readPortRange(text: string): Reading<string> {
  const [, first, sign, second = "0"] = /^(\d+)(?:([+-])(\d+))?$/.exec(text.trim()) ?? [];
  const low = Number(first);
  const high = sign === "-" ? Number(second) : low + Number(second);
  const isRange = text.trim() === "" || (low <= high && high <= 65_535);
  return isRange ? { value: text } : { reason: "must be a port range such as 300-2000" };
}

function readGateText(text: string): Reading<ReadonlyMap<string, boolean>> {
  const gates = new Map<string, boolean>();
  for (const pair of splitCommas(text)) {
    const [name = "", word = ""] = pair.split("=", 2);
    const reading = readBoolean(word.trim());
    if ("reason" in reading) return { reason: `${JSON.stringify(pair)} is not Name=true|false` };
    gates.set(name.trim(), reading.value);
  }
  return { value: gates };
}

function readGateMap(value: unknown): Reading<ReadonlyMap<string, boolean>> {
  if (!isRecord(value)) return { reason: "must be a map of booleans" };
  const gates = new Map<string, boolean>();
  for (const [name, gate] of Object.entries(value)) {
    if (typeof gate !== "boolean") return { reason: `${name} must be true or false` };
    gates.set(name, gate);
  }
  return { value: gates };
}
