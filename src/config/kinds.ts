/** Kinds of settings: how a value is read, written and described. Pure. */
import { durationText, parseDuration } from "../base/duration.ts";
import { type Cidr, cidrText, hostPort, parseCidr, parseIpAddress } from "../base/ip.ts";
import { isRecord } from "../base/is-record.ts";
import type { FieldKind, FieldValues } from "./field.ts";

/** A value, or the reason why it is invalid. */
export type Reading<T> = { readonly value: T } | { readonly reason: string };

export interface Kind<T> {
  /** The type of a field in docs/configuration.md. */
  readonly type: string;
  /** The placeholder for a flag's value in --help. If undefined, --help shows the type. */
  readonly placeholder?: string;
  /** Whether the values of a repeated flag are joined into one list. */
  readonly isList?: true;
  /** Reads a flag's value or a default. */
  readonly fromText: (text: string) => Reading<T>;
  /** Reads a JSON value from the file. If undefined, the file contains a string for `fromText`. */
  readonly fromFile?: (value: unknown) => Reading<T>;
  /** The reason for rejecting a value in the file that is not a string. */
  readonly stringReason?: string;
  /** Returns the JSON value that kube-proxy would write. If undefined, the value itself is written. */
  readonly write?: (value: T) => unknown;
}

const durationReason = 'must be a duration string such as "30s"';

export const kinds: { readonly [K in FieldKind]: Kind<FieldValues[K]> } = {
  text: { type: "string", fromText: (value) => ({ value }) },
  boolean: {
    type: "boolean",
    placeholder: "true|false",
    fromText: readBoolean,
    fromFile: (value) =>
      typeof value === "boolean" ? { value } : { reason: "must be true or false" },
  },
  integer: {
    type: "integer",
    placeholder: "number",
    fromText: (text) => readInteger(decimal(text)),
    fromFile: readInteger,
  },
  "optional-integer": {
    type: "integer",
    placeholder: "number",
    fromText: (text) => (text === "" ? { value: undefined } : readInteger(decimal(text))),
  },
  float: {
    type: "number",
    fromText: (text) => readNumber(decimal(text)),
    fromFile: readNumber,
  },
  duration: {
    type: "duration",
    fromText: readDuration,
    stringReason: durationReason,
    write: durationText,
  },
  "duration-or-nanoseconds": {
    type: "duration or nanoseconds",
    placeholder: "duration",
    fromText: readDuration,
    fromFile: (value) =>
      typeof value === "number" ? { value: value / 1e6 } : readDuration(String(value)),
    write: durationText,
  },
  ip: {
    type: "IP address",
    placeholder: "IP",
    fromText: (text) => found(parseIpAddress(text), "must be an IP address"),
  },
  listen: {
    type: "IP:port",
    fromText: readListen,
    write: (value) => (value?.port === undefined ? "" : hostPort(value.address, value.port)),
  },
  texts: {
    type: "list",
    isList: true,
    fromText: (text) => ({ value: splitCommas(text) }),
    fromFile: readTexts,
    write: nullIfEmpty,
  },
  "comma-list": {
    type: "comma-separated string",
    placeholder: "list",
    fromText: (text) => ({ value: splitCommas(text) }),
    write: (value) => value.join(","),
  },
  cidrs: {
    type: "list of CIDRs",
    placeholder: "list",
    isList: true,
    fromText: (text) => readCidrs(splitCommas(text)),
    fromFile: readCidrList,
    write: (value) => nullIfEmpty(value.map(cidrText)),
  },
  gates: {
    type: "map of booleans",
    placeholder: "list",
    isList: true,
    fromText: readGateText,
    fromFile: readGateMap,
    write: (value) => Object.fromEntries(value),
  },
  "port-range": { type: "range", fromText: readPortRange },
  ignored: {
    type: "not checked",
    placeholder: "value",
    fromText: (value) => ({ value }),
    // An empty list means the same as an empty text.
    fromFile: (value) => ({ value: Array.isArray(value) && value.length === 0 ? "" : value }),
  },
};

function found<T>(value: T | undefined, reason: string): Reading<T> {
  return value === undefined ? { reason } : { value };
}

/** Accepts the words that Go's strconv.ParseBool accepts. */
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

/** Parses a decimal number; NaN if it is invalid. `Number` alone also accepts blanks and hexadecimal numbers. */
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

/** Returns the host without brackets, and the port. The port is NaN if an IPv6 address has no brackets. */
function splitPort(text: string): readonly [host: string, port: number] {
  const colon = text.lastIndexOf(":");
  const host = text.slice(0, colon);
  const port = decimal(text.slice(colon + 1));
  const isBracketed = host.startsWith("[") && host.endsWith("]");
  if (host.includes(":") !== isBracketed) return [host, Number.NaN];
  return [isBracketed ? host.slice(1, -1) : host, port];
}

/** Like kube-proxy, does not trim blanks. */
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

/** Parses CIDRs. If some are invalid, the reason names them. */
export function readCidrs(texts: readonly string[]): Reading<readonly Cidr[]> {
  const cidrs = texts.flatMap((text) => parseCidr(text) ?? []);
  if (cidrs.length === texts.length) return { value: cidrs };
  const wrong = texts.filter((text) => parseCidr(text) === undefined);
  const names = wrong.map((text) => JSON.stringify(text)).join(", ");
  return { reason: `${names} is not a network (CIDR)` };
}

/** Validates like ParsePortRange in k8s.io/apimachinery. */
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

/** Returns null for an empty list, as Go writes a nil slice. */
function nullIfEmpty<T>(list: readonly T[]): readonly T[] | null {
  return list.length === 0 ? null : list;
}
