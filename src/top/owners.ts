/** Which Service a virtual server belongs to, as a daemon or the objects of a cluster say. Pure. */
import { parseIpAddress } from "../base/ip.ts";
import { protocolNumbers } from "../base/protocol.ts";
import type { ServiceRow } from "../daemon/operator/answers.ts";
import { virtualServerKey } from "../state/virtual-server.ts";
import type { Owner, Owners } from "./rows.ts";

/** Where names come from. */
export type ReadNames = () => Promise<NamesAnswer>;

export type NamesAnswer =
  | { readonly kind: "named"; readonly rows: readonly ServiceRow[] }
  /** Rows show virtual servers alone. */
  | { readonly kind: "unnamed"; readonly reason: string };

/** Why someone else has the virtual server. */
const otherOwners: ReadonlySet<string> = new Set([
  "claimed-by-another-service",
  "foreign-virtual-server",
]);

export function ownersOf(rows: readonly ServiceRow[]): Owners {
  const owners = new Map<string, Owner>();
  for (const { namespace, name, portName = "", protocol, address, port, reason = "" } of rows) {
    if (otherOwners.has(reason)) continue;
    const parsed = parseIpAddress(address);
    if (parsed === undefined || !isProtocol(protocol)) continue;
    const key = virtualServerKey({ protocol, address: parsed, port });
    owners.set(key, { namespace, name, portName });
  }
  return owners;
}

function isProtocol(text: string): text is keyof typeof protocolNumbers {
  return Object.hasOwn(protocolNumbers, text);
}
