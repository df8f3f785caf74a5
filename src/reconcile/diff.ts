/** What must change so that the kernel (as known) becomes what is desired. Pure. */
import type { IpAddress } from "../base/ip.ts";
import type { AddressChange, IpvsChange, SetChange } from "../kernel/kernel.ts";
import type { PlannedVirtualServer } from "../plan/service-port-plan.ts";
import type { IpSet } from "../state/ip-set.ts";
import { type RealServer, realServerKey, sameRealServer } from "../state/real-server.ts";
import type { SetEntry } from "../state/set-entry.ts";
import { sameVirtualServer, type VirtualServerId } from "../state/virtual-server.ts";
import type { DesiredView } from "./desired-view.ts";
import type { KnownState, KnownVirtualServer } from "./known-state.ts";

/** The steps for one virtual server. */
export interface VirtualServerDiff {
  readonly key: string;
  readonly virtualServer: VirtualServerId;
  /** Creations and updates, in order. */
  readonly changes: readonly IpvsChange[];
  /** Real servers nobody wants any more: to be drained, then removed. */
  readonly unwanted: readonly RealServer[];
  /** The virtual server itself is not wanted any more. */
  readonly isUnwanted: boolean;
  /** Nobody took new connections, and somebody is to. */
  readonly isFirstRealServer: boolean;
}

/** Compares one virtual server; undefined when nothing is to be done. */
export function diffVirtualServer(
  key: string,
  desired: PlannedVirtualServer | undefined,
  known: KnownVirtualServer | undefined,
): VirtualServerDiff | undefined {
  if (desired === undefined) {
    if (known === undefined) return undefined;
    return {
      key,
      virtualServer: idOf(known),
      changes: [],
      unwanted: [],
      isUnwanted: true,
      isFirstRealServer: false,
    };
  }
  const server = serverChange(desired, known);
  const { changes, unwanted } = realServerChanges(desired, known);
  if (server === undefined && changes.length === 0 && unwanted.length === 0) return undefined;
  const hadSomebody = known?.realServers.some(({ weight }) => weight > 0) ?? false;
  return {
    key,
    virtualServer: idOf(desired),
    changes: server === undefined ? changes : [server, ...changes],
    unwanted,
    isUnwanted: false,
    isFirstRealServer: !hadSomebody && desired.realServers.length > 0,
  };
}

function serverChange(
  { virtualServer }: PlannedVirtualServer,
  known: KnownVirtualServer | undefined,
): IpvsChange | undefined {
  if (known === undefined) return { kind: "create-virtual-server", virtualServer };
  if (sameVirtualServer(virtualServer, known.virtualServer)) return undefined;
  return { kind: "update-virtual-server", virtualServer };
}

function realServerChanges(
  desired: PlannedVirtualServer,
  known: KnownVirtualServer | undefined,
): { readonly changes: IpvsChange[]; readonly unwanted: RealServer[] } {
  const changes: IpvsChange[] = [];
  if (desired.realServers === known?.realServers) return { changes, unwanted: [] };
  const { virtualServer } = desired;
  const remaining = new Map(known?.realServers.map((server) => [realServerKey(server), server]));
  for (const realServer of desired.realServers) {
    const key = realServerKey(realServer);
    const present = remaining.get(key);
    remaining.delete(key);
    if (present === undefined) {
      changes.push({ kind: "create-real-server", virtualServer, realServer });
    } else if (!sameRealServer(realServer, present)) {
      changes.push({ kind: "update-real-server", virtualServer, realServer });
    }
  }
  return { changes, unwanted: [...remaining.values()] };
}

/** Entries of one set to add and to remove, for the given members. */
export function diffEntries(
  set: IpSet,
  entries: Iterable<SetEntry>,
  desired: DesiredView,
  known: KnownState,
): readonly SetChange[] {
  const changes: SetChange[] = [];
  for (const entry of entries) {
    const isWanted = desired.hasEntry(set.name, entry);
    if (isWanted === known.hasEntry(set.name, entry)) continue;
    changes.push({ kind: isWanted ? "add" : "remove", set, entry });
  }
  return changes;
}

/** Addresses to bind and to unbind, for the given ones. */
export function diffAddresses(
  addresses: Iterable<IpAddress>,
  desired: DesiredView,
  known: KnownState,
): readonly AddressChange[] {
  const changes: AddressChange[] = [];
  for (const address of addresses) {
    const isWanted = desired.hasAddress(address);
    if (isWanted === known.addresses.has(address)) continue;
    changes.push({ kind: isWanted ? "add" : "remove", address });
  }
  return changes;
}

/** Identity of a virtual server, planned or known, for requests about it. */
export function idOf({ virtualServer }: KnownVirtualServer): VirtualServerId {
  const { protocol, address, port } = virtualServer;
  return { protocol, address, port };
}
