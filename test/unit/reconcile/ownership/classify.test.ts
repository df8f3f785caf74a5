/** Whose the virtual servers are that a start finds: each rule on its own. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { type IpFamily, ipFamilies } from "../../../../src/base/ip.ts";
import { type SetRole, setFor } from "../../../../src/plan/sets.ts";
import { CachedState } from "../../../../src/reconcile/observed/cached-state.ts";
import {
  classifyServers,
  nothingRecorded,
  type Owner,
  type OwnershipFacts,
  type RecordedOwnership,
} from "../../../../src/reconcile/ownership/classify.ts";
import { realServerKey } from "../../../../src/state/real-server.ts";
import {
  addressEntry,
  addressPortEntry,
  portEntry,
  type SetEntry,
} from "../../../../src/state/set-entry.ts";
import { type VirtualServerId, virtualServerKey } from "../../../../src/state/virtual-server.ts";
import { ip } from "../../../support/records.ts";

const service = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
const nodePort = { protocol: "TCP", address: ip("192.168.10.11"), port: 30_080 } as const;
const keep = { foreignVirtualServers: "keep", excludeCidrs: [] } as const;

let cached: CachedState;

beforeEach(() => {
  cached = new CachedState();
});

function put(id: VirtualServerId, ...realServers: readonly string[]): void {
  const virtualServer = {
    ...id,
    scheduler: "rr",
    persistenceTimeoutSeconds: 0,
    persistencePrefixLength: 32,
    flags: 0,
  };
  cached.virtualServers.set(virtualServerKey(id), {
    virtualServer,
    realServers: realServers.map((address) => {
      return { address: ip(address), port: 8080, weight: 1, forwardingMethod: 0 };
    }),
  });
}

function name(role: SetRole, entry: SetEntry, family: IpFamily = "IPv4"): void {
  const set = setFor(role, family).name;
  cached.setEntries.set(set, new Set([...(cached.setEntries.get(set) ?? []), entry]));
}

function entryOf({ address, protocol, port }: VirtualServerId): SetEntry {
  return addressPortEntry(address, protocol, port);
}

/** Bound, with its guard. */
function bind(address: string, family: IpFamily = "IPv4"): void {
  cached.addresses.add(ip(address));
  name("ipvsIps", addressEntry(ip(address)), family);
}

interface Known extends Partial<Pick<OwnershipFacts, "policy" | "nodeAddresses">> {
  readonly recorded?: Partial<RecordedOwnership>;
  readonly claims?: readonly VirtualServerId[];
  /** Addresses of real servers that Services want. */
  readonly endpoints?: readonly string[];
}

function ownerOf(
  id: VirtualServerId,
  { recorded, claims = [], endpoints = [], ...known }: Known = {},
): Owner | undefined {
  const claimed = new Set(claims.map(virtualServerKey));
  const known8080 = new Set(
    endpoints.map((address) => realServerKey({ address: ip(address), port: 8080 })),
  );
  const steps = classifyServers({
    cached,
    recorded: { ...nothingRecorded, ...recorded },
    policy: keep,
    nodeAddresses: new Set([nodePort.address]),
    isClaimed: (key) => claimed.has(key),
    isKnownEndpoint: (key) => known8080.has(key),
    ...known,
  });
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value.get(virtualServerKey(id));
  }
}

describe("a virtual server of which nothing speaks for us", () => {
  it("is foreign, claimed or not", () => {
    put(service, "10.244.2.11");
    assert.equal(ownerOf(service), "foreign");
    assert.equal(ownerOf(service, { claims: [service] }), "foreign");
  });

  it("is ours where the policy says that all are", () => {
    put(service);
    const policy = { foreignVirtualServers: "delete", excludeCidrs: [] } as const;
    assert.equal(ownerOf(service, { policy }), "owned");
    const foreign = new Set([virtualServerKey(service)]);
    assert.equal(ownerOf(service, { policy, recorded: { foreign } }), "owned");
  });
});

describe("the record", () => {
  it("says what is ours, whatever the sets say", () => {
    put(nodePort);
    const owned = new Set([virtualServerKey(nodePort)]);
    const nodeAddresses = new Set<never>();
    assert.equal(ownerOf(nodePort, { recorded: { owned }, nodeAddresses }), "owned");
  });

  it("says what is a third party's, although a set names its port", () => {
    put(nodePort, "10.244.2.11");
    name("nodePortTcp", portEntry(nodePort.port));
    const foreign = new Set([virtualServerKey(nodePort)]);
    const known = { claims: [nodePort], endpoints: ["10.244.2.11"] };
    assert.equal(ownerOf(nodePort, known), "owned");
    assert.equal(ownerOf(nodePort, { ...known, recorded: { foreign } }), "foreign");
  });

  it("is out of date where a set names the address as well: another proxy has taken it over", () => {
    put(service, "10.244.2.11");
    const foreign = new Set([virtualServerKey(service)]);
    assert.equal(ownerOf(service, { recorded: { foreign } }), "foreign");
    name("clusterIp", entryOf(service));
    assert.equal(ownerOf(service, { recorded: { foreign } }), "owned");
  });

  it("speaks of that key alone", () => {
    put(service);
    const owned = new Set([virtualServerKey({ ...service, port: 81 })]);
    assert.equal(ownerOf(service, { recorded: { owned } }), "foreign");
  });
});

describe("an entry by address, protocol and port", () => {
  const roles: readonly SetRole[] = ["clusterIp", "externalIp", "externalIpLocal", "loadBalancer"];
  for (const role of roles) {
    it(`of ${role} marks a virtual server as ours`, () => {
      put(service);
      name(role, entryOf(service));
      assert.equal(ownerOf(service), "owned");
    });
  }

  it("marks no other port and no other protocol of the address", () => {
    const others = [
      { ...service, port: 81 },
      { ...service, protocol: "UDP" },
    ] as const;
    name("clusterIp", entryOf(service));
    for (const other of others) {
      put(other);
      assert.equal(ownerOf(other), "foreign");
    }
  });

  it("is looked for in the family of the address", () => {
    const six = { ...service, address: ip("fd00:96::10") };
    put(six);
    name("clusterIp", entryOf(six), "IPv4");
    assert.equal(ownerOf(six), "foreign");
    name("clusterIp", entryOf(six), "IPv6");
    assert.equal(ownerOf(six), "owned");
  });

  it("of a set that guards or masquerades marks nothing", () => {
    put(service);
    name("loadBalancerFirewall", entryOf(service));
    assert.equal(ownerOf(service), "foreign");
  });
});

describe("an entry of a node port", () => {
  it("marks that port as ours on addresses of the node", () => {
    put(nodePort);
    name("nodePortTcp", portEntry(nodePort.port));
    assert.equal(ownerOf(nodePort), "owned");
  });

  it("marks it as ours on loopback, where kube-proxy 1.20 serves node ports, too", () => {
    const onLoopback = { ...nodePort, address: ip("127.0.0.1") };
    put(onLoopback);
    assert.equal(ownerOf(onLoopback), "foreign");
    name("nodePortTcp", portEntry(nodePort.port));
    assert.equal(ownerOf(onLoopback), "owned");
  });

  it("marks nothing on an address that the node does not have", () => {
    put(nodePort);
    name("nodePortTcp", portEntry(nodePort.port));
    const nodeAddresses = new Set([ip("172.16.5.11")]);
    assert.equal(ownerOf(nodePort, { nodeAddresses }), "foreign");
  });

  it("marks neither another port nor another protocol", () => {
    const others = [
      { ...nodePort, port: 30_081 },
      { ...nodePort, protocol: "UDP" },
    ] as const;
    name("nodePortTcp", portEntry(nodePort.port));
    for (const other of others) {
      put(other);
      assert.equal(ownerOf(other), "foreign");
    }
  });

  it("of SCTP has the address in it", () => {
    const sctp = { ...nodePort, protocol: "SCTP" } as const;
    put(sctp);
    name("nodePortSctp", addressPortEntry(ip("172.16.5.11"), "SCTP", nodePort.port));
    assert.equal(ownerOf(sctp), "foreign");
    name("nodePortSctp", entryOf(sctp));
    assert.equal(ownerOf(sctp), "owned");
    assert.equal(ownerOf(sctp, { nodeAddresses: new Set() }), "owned", "its address went since");
  });
});

describe("an address on kube-ipvs0", () => {
  it("of which no set knows a port says what is ours, claimed or not", () => {
    put(service);
    bind("10.96.0.10");
    assert.equal(ownerOf(service), "owned");
  });

  it("of which a set names another port says it of what a Service claims and serves alone", () => {
    const other = { ...service, port: 81 };
    put(service, "10.244.1.5", "10.50.0.1");
    bind("10.96.0.10");
    name("clusterIp", entryOf(other));
    const endpoints = ["10.244.1.5"];
    assert.equal(ownerOf(service, { endpoints }), "foreign");
    assert.equal(ownerOf(service, { claims: [service] }), "foreign");
    assert.equal(ownerOf(service, { claims: [service], endpoints }), "owned");
    put(service);
    assert.equal(ownerOf(service, { claims: [service] }), "owned");
  });

  it("says nothing of another address", () => {
    put(service);
    bind("10.96.0.11");
    assert.equal(ownerOf(service, { claims: [service] }), "foreign");
  });
});

describe("sets that were flushed while addresses are bound", () => {
  it("leave what Services claim to us, in that family", () => {
    put(nodePort);
    cached.addresses.add(service.address);
    assert.equal(ownerOf(nodePort, { claims: [nodePort] }), "owned");
    assert.equal(ownerOf(nodePort), "foreign");
    cached.addresses.delete(service.address);
    cached.addresses.add(ip("fd00:96::10"));
    assert.equal(ownerOf(nodePort, { claims: [nodePort] }), "foreign");
  });

  it("are known by KUBE-IPVS-IPS: one entry there, and they were not", () => {
    put(nodePort);
    bind("10.96.0.10");
    assert.equal(ownerOf(nodePort, { claims: [nodePort] }), "foreign");
  });
});

describe("real servers that are endpoints of Services", () => {
  const endpoints = ["10.244.2.11", "10.244.2.12"];

  it("make it ours where a Service claims it, and possibly ours where none does", () => {
    put(nodePort, "10.244.2.11", "10.244.2.12");
    assert.equal(ownerOf(nodePort, { endpoints, claims: [nodePort] }), "owned");
    assert.equal(ownerOf(nodePort, { endpoints }), "possibly-owned");
  });

  it("say nothing where one is unknown, or there is none", () => {
    put(nodePort, "10.244.2.11", "10.244.9.9");
    put(service);
    for (const id of [nodePort, service]) {
      assert.equal(ownerOf(id, { endpoints, claims: [nodePort, service] }), "foreign");
    }
  });
});

it("every virtual server of both families gets an answer, and the same one each time", () => {
  for (const family of ipFamilies) {
    const addresses = family === "IPv4" ? ["10.96.0.10", "10.96.0.11"] : ["fd00::10", "fd00::11"];
    for (const address of addresses) put({ ...service, address: ip(address) }, "10.244.2.11");
  }
  name("clusterIp", entryOf(service));
  const all = (): readonly (Owner | undefined)[] =>
    [...cached.virtualServers.values()].map(({ virtualServer }) => ownerOf(virtualServer));
  assert.deepEqual(all(), ["owned", "foreign", "foreign", "foreign"]);
  assert.deepEqual(all(), all());
});
