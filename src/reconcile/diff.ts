/** What must change so that the kernel (as known) becomes what is desired. Pure. */
import type { IpAddress } from "../base/ip.ts";
import type { AddressChange, IpvsChange, SetChange } from "../kernel/kernel.ts";
import type { PlannedVirtualServer } from "../plan/service-port-plan.ts";
import type { IpSet } from "../state/ip-set.ts";
import {
  type RealServer,
  realServerKey,
  sameRealServer,
  sameRealServers,
} from "../state/real-server.ts";
import type { SetEntry } from "../state/set-entry.ts";
import { sameVirtualServer, type VirtualServerId } from "../state/virtual-server.ts";
import type { DesiredView } from "./desired-view.ts";
import type { KnownState, KnownVirtualServer } from "./known-state.ts";

/** The steps for one virtual server. */
export interface VirtualServerDiff {
  readonly key: string;
  readonly virtualServer: VirtualServerId;
  /** Creations and updates, in order; made when asked for: a first sync has hundreds of thousands. */
  readonly changes: () => readonly IpvsChange[];
  /** Real servers nobody wants any more: to be drained, then removed. */
  readonly unwanted: readonly RealServer[];
  /** The virtual server is not there. */
  readonly isNew: boolean;
  /** The virtual server itself is not wanted any more. */
  readonly isUnwanted: boolean;
  /** Nobody took new connections, and somebody is to. */
  readonly isFirstRealServer: boolean;
}

/** Compares one virtual server; undefined when nothing is to be done. `mustBeNew`: a new one is not to be there. */
export function diffVirtualServer(
  key: string,
  desired: PlannedVirtualServer | undefined,
  known: KnownVirtualServer | undefined,
  mustBeNew = false,
): VirtualServerDiff | undefined {
  if (desired === undefined) return known === undefined ? undefined : removal(key, known);
  if (known === undefined) return creation(key, desired, mustBeNew);
  const server = serverChange(desired, known);
  const { changes, unwanted } = realServerChanges(desired, known);
  if (server === undefined && changes.length === 0 && unwanted.length === 0) return undefined;
  const hadSomebody = known.realServers.some(({ weight }) => weight > 0);
  return {
    key,
    virtualServer: idOf(desired),
    changes: () => (server === undefined ? changes : [server, ...changes]),
    unwanted,
    isNew: false,
    isUnwanted: false,
    isFirstRealServer: !hadSomebody && desired.realServers.length > 0,
  };
}

function removal(key: string, known: KnownVirtualServer): VirtualServerDiff {
  return {
    key,
    virtualServer: idOf(known),
    changes: () => [],
    unwanted: [],
    isNew: false,
    isUnwanted: true,
    isFirstRealServer: false,
  };
}

function creation(
  key: string,
  desired: PlannedVirtualServer,
  mustBeNew: boolean,
): VirtualServerDiff {
  const { virtualServer, realServers } = desired;
  const kind = "create-virtual-server";
  return {
    key,
    virtualServer,
    changes: () => [
      mustBeNew ? { kind, virtualServer, mustBeNew } : { kind, virtualServer },
      ...realServers.map((realServer) => creationOf(virtualServer, realServer)),
    ],
    unwanted: [],
    isNew: true,
    isUnwanted: false,
    isFirstRealServer: realServers.length > 0,
  };
}

function creationOf(virtualServer: VirtualServerId, realServer: RealServer): IpvsChange {
  return { kind: "create-real-server", virtualServer, realServer };
}

function serverChange(
  { virtualServer }: PlannedVirtualServer,
  known: KnownVirtualServer,
): IpvsChange | undefined {
  if (sameVirtualServer(virtualServer, known.virtualServer)) return undefined;
  return { kind: "update-virtual-server", virtualServer };
}

function realServerChanges(
  desired: PlannedVirtualServer,
  known: KnownVirtualServer,
): { readonly changes: IpvsChange[]; readonly unwanted: RealServer[] } {
  const changes: IpvsChange[] = [];
  // Most of a comparison of everything is this.
  if (sameRealServers(desired.realServers, known.realServers)) return { changes, unwanted: [] };
  const { virtualServer } = desired;
  const remaining = new Map(known.realServers.map((server) => [realServerKey(server), server]));
  for (const realServer of desired.realServers) {
    const key = realServerKey(realServer);
    const present = remaining.get(key);
    remaining.delete(key);
    if (present === undefined) {
      changes.push(creationOf(virtualServer, realServer));
    } else if (!sameRealServer(realServer, present)) {
      changes.push({ kind: "update-real-server", virtualServer, realServer });
    }
  }
  return { changes, unwanted: [...remaining.values()] };
}

/** What to do about a member of a set; undefined when nothing is to be done. */
export function diffEntry(
  set: IpSet,
  entry: SetEntry,
  desired: DesiredView,
  known: KnownState,
): SetChange | undefined {
  const isWanted = desired.hasEntry(set.name, entry);
  if (isWanted === known.hasEntry(set.name, entry)) return undefined;
  return { kind: isWanted ? "add" : "remove", set, entry };
}

/** What to do about an address: bind it, unbind it, or (undefined) nothing. */
export function diffAddress(
  address: IpAddress,
  desired: DesiredView,
  known: KnownState,
): AddressChange | undefined {
  const isWanted = desired.hasAddress(address);
  if (isWanted === known.addresses.has(address)) return undefined;
  return { kind: isWanted ? "add" : "remove", address };
}

/** Identity of a virtual server, planned or known, for requests about it. */
export function idOf({ virtualServer }: KnownVirtualServer): VirtualServerId {
  const { protocol, address, port } = virtualServer;
  return { protocol, address, port };
}
