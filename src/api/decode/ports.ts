import type { Protocol } from "../../base/protocol.ts";
import type { RefusalReason } from "../refusals.ts";
import { choiceAt, type DecodeScope, isAbsent, refusePart } from "./fields.ts";
import { isSafeName } from "./identity.ts";

const protocolRule = {
  choices: ["TCP", "UDP", "SCTP"] as readonly Protocol[],
  absent: "TCP" as Protocol,
  reason: "unknown-protocol" as RefusalReason,
};

/** A protocol; absent is TCP, as the API server would have filled in. */
export function protocolAt(
  scope: DecodeScope,
  value: unknown,
  field: string,
): Protocol | undefined {
  return choiceAt(scope, value, field, protocolRule);
}

/** A port number from 1 to 65535, as a number: "80" is refused, as an API server does. */
export function portNumberAt(
  scope: DecodeScope,
  value: unknown,
  field: string,
): number | undefined {
  return isPortNumber(value) ? value : refusePart(scope, field, "invalid-port", value);
}

/** As {@link portNumberAt}, for ports that need not be there: absent, 0 and refused give 0. */
export function optionalPortAt(scope: DecodeScope, value: unknown, field: string): number {
  if (isAbsent(value) || value === 0) return 0;
  return portNumberAt(scope, value, field) ?? 0;
}

/** A port name, pooled: absent is the empty name. */
export function portNameAt(scope: DecodeScope, value: unknown, field: string): string | undefined {
  if (isAbsent(value) || value === "") return "";
  if (isSafeName(value)) return scope.texts.intern(value);
  return refusePart(scope, field, "invalid-name", value);
}

function isPortNumber(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 65535;
}
