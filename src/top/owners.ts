/** Which Service a virtual server belongs to, as a daemon or the objects of a cluster say. Pure. */
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
  for (const row of rows) {
    const { namespace, name, portName = "", reason = "" } = row;
    if (!otherOwners.has(reason)) owners.set(virtualServerKey(row), { namespace, name, portName });
  }
  return owners;
}
