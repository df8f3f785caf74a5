/** Tests that the right changes are withheld if other changes were not made. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setFor } from "../../../src/plan/sets.ts";
import { NotMade } from "../../../src/reconcile/apply/blocked.ts";
import type { Change } from "../../../src/reconcile/change.ts";
import { foldDone, subjectOf } from "../../../src/reconcile/kinds/kinds.ts";
import { CachedState } from "../../../src/reconcile/observed/cached-state.ts";
import { Relations, type RelationView } from "../../../src/reconcile/relations.ts";
import { subjectText } from "../../../src/reconcile/subject.ts";
import type { IpSet } from "../../../src/state/ip-set.ts";
import {
  addressEntry,
  addressPortEntry,
  portEntry,
  type SetEntry,
} from "../../../src/state/set-entry.ts";
import { type VirtualServer, virtualServerKey } from "../../../src/state/virtual-server.ts";
import { ip } from "../../support/records.ts";

function serverAt(address: string, port = 80): VirtualServer {
  return {
    protocol: "TCP",
    address: ip(address),
    port,
    scheduler: "rr",
    persistenceTimeoutSeconds: 0,
    persistencePrefixLength: 32,
    flags: 0,
  };
}

function create(server: VirtualServer): Change {
  const key = virtualServerKey(server);
  return {
    kind: "virtual-server-create",
    key,
    after: server,
    reason: "missing",
  };
}

function remove(server: VirtualServer): Change {
  const key = virtualServerKey(server);
  return { kind: "virtual-server-remove", key, before: server, reason: "unwanted" };
}

function addReal(server: VirtualServer): Change {
  const key = virtualServerKey(server);
  const after = { address: ip("10.244.2.11"), port: 8080, weight: 1, forwardingMethod: 0 };
  return {
    kind: "real-server-create",
    key,
    virtualServer: server,
    after,
    reason: "missing",
  };
}

function add(set: IpSet, entry: SetEntry): Change {
  return { kind: "entry-add", set, entry, reason: "missing" };
}

function take(set: IpSet, entry: SetEntry): Change {
  return { kind: "entry-remove", set, entry, reason: "unwanted" };
}

function bind(address: string): Change {
  return { kind: "address-add", address: ip(address), reason: "missing" };
}

function unbind(address: string): Change {
  return { kind: "address-remove", address: ip(address), reason: "unwanted" };
}

const clusterIps = setFor("clusterIp", "IPv4");
const guards = setFor("ipvsIps", "IPv4");
const ports = setFor("nodePortTcp", "IPv4");
const one = serverAt("10.96.0.10");
const two = serverAt("10.96.0.11");
/** Another port on the same address. */
const onePlain = serverAt("10.96.0.10", 8080);
/** A port on the same address that belongs to a third party. */
const foreign = serverAt("10.96.0.10", 9090);
const nodePort = serverAt("192.168.10.11", 30_080);
const entryOf = ({ address, protocol, port }: VirtualServer): SetEntry =>
  addressPortEntry(address, protocol, port);
const link: Change = { kind: "link-create", link: "kube-ipvs0", reason: "missing" };
const setCreate: Change = { kind: "set-create", set: clusterIps, reason: "missing" };

/** A cache with all sets, and the entries that guard both addresses. */
function cachedSets(...absent: readonly IpSet[]): CachedState {
  const cached = new CachedState();
  for (const { name } of [clusterIps, guards, ports]) cached.setEntries.set(name, new Set());
  for (const { address } of [one, two]) {
    cached.setEntries.get(guards.name)?.add(addressEntry(address));
  }
  for (const { name } of absent) cached.setEntries.delete(name);
  cached.hasLink = true;
  return cached;
}

function cachedWithout(set: IpSet, entry: SetEntry): CachedState {
  const cached = cachedSets();
  cached.setEntries.get(set.name)?.delete(entry);
  return cached;
}

function withServer(virtualServer: VirtualServer): CachedState {
  const cached = cachedSets();
  cached.virtualServers.set(virtualServerKey(virtualServer), { virtualServer, realServers: [] });
  return cached;
}

/**
 * A view with all virtual servers above. Those that belong to third parties are also desired, but cannot be created.
 */
function viewOf(planned: readonly Change[], cached: CachedState): RelationView {
  const added = new Set(
    planned.flatMap((change) => (change.kind === "entry-add" ? [text(change)] : [])),
  );
  return {
    cached,
    rules: new Map(),
    distrusted: new Map(),
    desired: {
      ranges: () => [],
      tunnels: () => [],
      serversOfAddress: (address) =>
        [one, two, onePlain, foreign]
          .filter((server) => server.address === address)
          .map(virtualServerKey),
      virtualServer: (key) => {
        const found = [one, two, onePlain, nodePort].find(
          (server) => virtualServerKey(server) === key,
        );
        return found && { virtualServer: found, kind: "cluster-ip", realServers: [] };
      },
      hasEntry: (setName, entry) => added.has(`entry-add ${setName} ${entry}`),
      entries: () => [],
      hasAddress: () => true,
    },
  };
}

function text(change: Change): string {
  return `${change.kind} ${subjectText(subjectOf(change))}`;
}

interface Case {
  readonly name: string;
  /** Changes that are rejected or backing off, in plan order. */
  readonly refused: readonly Change[];
  /** Changes that are withheld because of them. */
  readonly blocked: readonly Change[];
  /** Changes that are made. */
  readonly made: readonly Change[];
  readonly cached?: CachedState;
}

const cases: readonly Case[] = [
  {
    name: "the entry that marks a virtual server, then the server and its real servers",
    refused: [add(clusterIps, entryOf(one))],
    blocked: [create(one), addReal(one), bind("10.96.0.10")],
    made: [add(clusterIps, entryOf(two)), create(two), addReal(two), bind("10.96.0.11")],
  },
  {
    name: "the entry of a node port, then its virtual server",
    refused: [add(ports, portEntry(30_080))],
    blocked: [create(nodePort), addReal(nodePort)],
    made: [create(serverAt("192.168.10.11", 30_081)), create(one), addReal(one)],
  },
  {
    name: "a virtual server, then its real servers",
    refused: [create(one)],
    blocked: [addReal(one)],
    made: [create(two), addReal(two), bind("10.96.0.11")],
  },
  {
    name: "the only virtual server of an address, then the address",
    refused: [create(one)],
    blocked: [bind("10.96.0.10")],
    made: [create(two), bind("10.96.0.11")],
  },
  {
    name: "one of an address's two virtual servers, but not the address",
    refused: [create(one)],
    blocked: [],
    made: [create(onePlain), bind("10.96.0.10")],
  },
  {
    name: "both of an address's virtual servers, then the address",
    refused: [create(one), create(onePlain)],
    blocked: [bind("10.96.0.10")],
    made: [],
  },
  {
    name: "one of an address's two virtual servers if the kernel has the other, but not the address",
    refused: [create(one)],
    blocked: [],
    made: [bind("10.96.0.10")],
    cached: withServer(onePlain),
  },
  {
    name: "nothing for a third-party virtual server, and not its address",
    refused: [create(one)],
    blocked: [bind("10.96.0.10")],
    made: [],
    cached: withServer(foreign),
  },
  {
    name: "an entry of KUBE-IPVS-IPS, then the address that it guards",
    refused: [add(guards, addressEntry(ip("10.96.0.10")))],
    blocked: [bind("10.96.0.10")],
    made: [create(one), addReal(one), create(two), bind("10.96.0.11")],
    cached: cachedWithout(guards, addressEntry(ip("10.96.0.10"))),
  },
  {
    name: "the link, then its addresses",
    refused: [link],
    blocked: [bind("10.96.0.10")],
    made: [create(two)],
    cached: Object.assign(withServer(one), { hasLink: false }),
  },
  {
    name: "an absent set, then its entries, but not the Service",
    refused: [setCreate],
    blocked: [add(clusterIps, entryOf(one))],
    made: [
      add(guards, addressEntry(ip("10.96.0.10"))),
      create(one),
      addReal(one),
      bind("10.96.0.10"),
    ],
    cached: cachedSets(clusterIps),
  },
  {
    name: "the removal of a virtual server, then that of the entry that marks it",
    refused: [remove(one)],
    blocked: [take(clusterIps, entryOf(one))],
    made: [remove(two), unbind("10.96.0.10"), take(clusterIps, entryOf(two))],
  },
  {
    name: "the removal of a node port's virtual server, then that of its entry",
    refused: [remove(nodePort)],
    blocked: [take(ports, portEntry(30_080))],
    made: [take(ports, portEntry(30_081))],
  },
  {
    name: "the removal of an address, then those of its virtual server and its guard",
    refused: [unbind("10.96.0.10")],
    blocked: [
      remove(one),
      take(guards, addressEntry(ip("10.96.0.10"))),
      take(clusterIps, entryOf(one)),
    ],
    made: [remove(two), take(guards, addressEntry(ip("10.96.0.11")))],
  },
];

describe("pending changes:", () => {
  for (const { name, refused, blocked, made, cached = cachedSets() } of cases) {
    it(name, () => {
      const planned = [...refused, ...blocked, ...made];
      const view = viewOf(planned, cached);
      const relations = new Relations(view);
      const notMade = new NotMade();
      const found: string[] = [];
      for (const change of planned) {
        const isBlocked = !refused.includes(change) && notMade.blocks(change, relations);
        if (isBlocked) found.push(text(change));
        if (isBlocked || refused.includes(change)) notMade.note(change);
        else foldDone([change], view);
      }
      assert.deepEqual(found, blocked.map(text));
    });
  }
});
