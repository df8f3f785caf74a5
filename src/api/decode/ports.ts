import type { Protocol } from "../../base/protocol.ts";
import { choiceIn, isAbsent, type Untrusted } from "./fields.ts";
import { isSafeName } from "./identity.ts";

const protocolRule = {
  choices: ["TCP", "UDP", "SCTP"],
  absent: "TCP",
  reason: "unknown-protocol",
} as const;

/** Reads a protocol. The default is TCP, as in the API. */
export function protocolIn(given: Untrusted, name: string): Protocol | undefined {
  return choiceIn(given, name, protocolRule);
}

/** Reads a port number from 1 to 65535. As in an API server, the string "80" is invalid. */
export function portNumberIn(given: Untrusted, name: string): number | undefined {
  const value = given.valueAt(name);
  return isPortNumber(value) ? value : given.field(name).refuse("invalid-port");
}

/** Like {@link portNumberIn}, for optional ports. Absent, 0 and invalid values yield 0. */
export function optionalPortIn(given: Untrusted, name: string): number {
  const value = given.valueAt(name);
  return isAbsent(value) || value === 0 ? 0 : (portNumberIn(given, name) ?? 0);
}

/** Reads and interns a port name. An absent name yields the empty name. */
export function portNameIn(given: Untrusted, name: string): string | undefined {
  const value = given.valueAt(name);
  if (isAbsent(value) || value === "") return "";
  return isSafeName(value) ? given.intern(value) : given.field(name).refuse("invalid-name");
}

function isPortNumber(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 65535;
}
