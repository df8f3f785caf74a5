import type { ServiceName } from "../api/objects.ts";
import type { IpAddress, IpFamily } from "../base/ip.ts";
import type { SetEntry } from "../state/set-entry.ts";
import type { ServerKey } from "../state/virtual-server.ts";

/** Identifies an entry of a set: `SET ENTRY`. */
export type EntryKey = string & { readonly __brand: "EntryKey" };

export function entryKey(setName: string, entry: SetEntry): EntryKey {
  return `${setName} ${entry}` as EntryKey;
}

/** Identifies what a Service requested: a virtual server, an address or a set entry. */
export type FormerKey = ServerKey | IpAddress | EntryKey;

/** Keys of objects whose desired state may have changed since the last sync took these keys. */
export interface DirtyKeys {
  readonly virtualServers: ReadonlySet<ServerKey>;
  /** Keys are set names. */
  readonly setEntries: ReadonlyMap<string, ReadonlySet<SetEntry>>;
  readonly addresses: ReadonlySet<IpAddress>;
  /** Families whose rules may differ. */
  readonly rules: ReadonlySet<IpFamily>;
  /** Services that no longer request an object. */
  readonly formerServices: ReadonlyMap<FormerKey, ServiceName>;
}

/** {@link DirtyKeys} to which keys can be added. */
export interface Marks {
  readonly virtualServers: Set<ServerKey>;
  readonly setEntries: Map<string, Set<SetEntry>>;
  readonly addresses: Set<IpAddress>;
  readonly rules: Set<IpFamily>;
  readonly formerServices: Map<FormerKey, ServiceName>;
}

export function noMarks(): Marks {
  return {
    virtualServers: new Set(),
    setEntries: new Map(),
    addresses: new Set(),
    rules: new Set(),
    formerServices: new Map(),
  };
}
