/** Tests each rule of the ownership classification at startup separately. */
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
const keep = { foreignVirtualServers: "keep", excludeCIDRs: [] } as const;

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

/** Binds the address and adds it to the address guard. */
function bind(address: string, family: IpFamily = "IPv4"): void {
  cached.addresses.add(ip(address));
  name("ipvsIps", addressEntry(ip(address)), family);
}

interface Known extends Partial<Pick<OwnershipFacts, "policy" | "nodeAddresses">> {
  readonly recorded?: Partial<RecordedOwnership>;
  readonly claims?: readonly VirtualServerId[];
  /** Addresses of real servers that Services desire. */
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

describe("a virtual server without any mark", () => {
  it("is foreign, claimed or not", () => {
    put(service, "10.244.2.11");
    assert.equal(ownerOf(service), "foreign");
    assert.equal(ownerOf(service, { claims: [service] }), "foreign");
  });

  it("is owned if the policy says so", () => {
    put(service);
    const policy = { foreignVirtualServers: "delete", excludeCIDRs: [] } as const;
    assert.equal(ownerOf(service, { policy }), "owned");
    const foreign = new Set([virtualServerKey(service)]);
    assert.equal(ownerOf(service, { policy, recorded: { foreign } }), "owned");
  });
});

describe("sets of the writer that is not in use", () => {
  const leave = (role: SetRole, entry: SetEntry): void => {
    const others = [...cached.otherEntries, [setFor(role, "IPv4").name, new Set([entry])] as const];
    cached.otherEntries = new Map(others);
  };

  it("mark a node port whose Service no longer exists as owned", () => {
    put(nodePort, "10.244.2.11");
    assert.equal(ownerOf(nodePort), "foreign");
    leave("nodePortTcp", portEntry(nodePort.port));
    assert.equal(ownerOf(nodePort), "owned");
  });

  it("show that another port of a bound address is foreign", () => {
    const other = { ...service, port: 8443 };
    put(other, "10.244.2.11");
    cached.addresses.add(service.address);
    assert.equal(ownerOf(other), "owned");
    leave("clusterIp", entryOf(service));
    leave("ipvsIps", addressEntry(service.address));
    assert.equal(ownerOf(other), "foreign");
  });
});

it("with port ranges, bound addresses that no set names are foreign, unless there are more than marks", () => {
  put({ protocol: "FWM", address: ip("0.0.0.0"), port: 0x10000 }, "10.244.2.11");
  put(service, "10.244.2.11");
  bind(service.address);
  assert.equal(ownerOf(service), "foreign");
  // Other software flushed the sets of Services.
  bind("10.96.0.11");
  assert.equal(ownerOf(service), "owned");
});

describe("the record", () => {
  it("identifies kube-ipvs's virtual servers, regardless of the sets", () => {
    put(nodePort);
    const owned = new Set([virtualServerKey(nodePort)]);
    const nodeAddresses = new Set<never>();
    assert.equal(ownerOf(nodePort, { recorded: { owned }, nodeAddresses }), "owned");
  });

  it("identifies foreign virtual servers, even if a set contains their port", () => {
    put(nodePort, "10.244.2.11");
    name("nodePortTcp", portEntry(nodePort.port));
    const foreign = new Set([virtualServerKey(nodePort)]);
    const known = { claims: [nodePort], endpoints: ["10.244.2.11"] };
    assert.equal(ownerOf(nodePort, known), "owned");
    assert.equal(ownerOf(nodePort, { ...known, recorded: { foreign } }), "foreign");
  });

  it("is outdated if a set also contains the address, because another proxy took over", () => {
    put(service, "10.244.2.11");
    const foreign = new Set([virtualServerKey(service)]);
    assert.equal(ownerOf(service, { recorded: { foreign } }), "foreign");
    name("clusterIp", entryOf(service));
    assert.equal(ownerOf(service, { recorded: { foreign } }), "owned");
  });

  it("applies only to that key", () => {
    put(service);
    const owned = new Set([virtualServerKey({ ...service, port: 81 })]);
    assert.equal(ownerOf(service, { recorded: { owned } }), "foreign");
  });
});

describe("an entry by address, protocol and port", () => {
  const roles: readonly SetRole[] = ["clusterIp", "externalIp", "externalIpLocal", "loadBalancer"];
  for (const role of roles) {
    it(`of ${role} marks a virtual server as owned`, () => {
      put(service);
      name(role, entryOf(service));
      assert.equal(ownerOf(service), "owned");
    });
  }

  it("does not mark another port or protocol of the address", () => {
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

  it("applies only to the family of the address", () => {
    const six = { ...service, address: ip("fd00:96::10") };
    put(six);
    name("clusterIp", entryOf(six), "IPv4");
    assert.equal(ownerOf(six), "foreign");
    name("clusterIp", entryOf(six), "IPv6");
    assert.equal(ownerOf(six), "owned");
  });

  it("of a set that guards or masquerades does not mark a virtual server", () => {
    put(service);
    name("loadBalancerFirewall", entryOf(service));
    assert.equal(ownerOf(service), "foreign");
  });
});

describe("an entry of a node port", () => {
  it("marks that port as owned on node addresses", () => {
    put(nodePort);
    name("nodePortTcp", portEntry(nodePort.port));
    assert.equal(ownerOf(nodePort), "owned");
  });

  it("marks it as owned on loopback, where kube-proxy 1.20 also serves node ports", () => {
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

  it("does not mark another port or protocol", () => {
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

  it("of SCTP contains the address", () => {
    const sctp = { ...nodePort, protocol: "SCTP" } as const;
    put(sctp);
    name("nodePortSctp", addressPortEntry(ip("172.16.5.11"), "SCTP", nodePort.port));
    assert.equal(ownerOf(sctp), "foreign");
    name("nodePortSctp", entryOf(sctp));
    assert.equal(ownerOf(sctp), "owned");
    assert.equal(
      ownerOf(sctp, { nodeAddresses: new Set() }),
      "owned",
      "its address has been removed since",
    );
  });
});

describe("an address on kube-ipvs0", () => {
  it("without any port in a set marks a virtual server as owned, claimed or not", () => {
    put(service);
    bind("10.96.0.10");
    assert.equal(ownerOf(service), "owned");
  });

  it("with another port in a set marks only a claimed and served virtual server as owned", () => {
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

  it("does not mark virtual servers of other addresses", () => {
    put(service);
    bind("10.96.0.11");
    assert.equal(ownerOf(service, { claims: [service] }), "foreign");
  });
});

describe("sets that were flushed while addresses are bound", () => {
  it("mark claimed virtual servers of that family as owned", () => {
    put(nodePort);
    cached.addresses.add(service.address);
    assert.equal(ownerOf(nodePort, { claims: [nodePort] }), "owned");
    assert.equal(ownerOf(nodePort), "foreign");
    cached.addresses.delete(service.address);
    cached.addresses.add(ip("fd00:96::10"));
    assert.equal(ownerOf(nodePort, { claims: [nodePort] }), "foreign");
  });

  it("are detected by KUBE-IPVS-IPS: with one entry there, the sets were not flushed", () => {
    put(nodePort);
    bind("10.96.0.10");
    assert.equal(ownerOf(nodePort, { claims: [nodePort] }), "foreign");
  });
});

describe("real servers that are endpoints of Services", () => {
  const endpoints = ["10.244.2.11", "10.244.2.12"];

  it("mark a virtual server as owned if a Service claims it, and as possibly owned otherwise", () => {
    put(nodePort, "10.244.2.11", "10.244.2.12");
    assert.equal(ownerOf(nodePort, { endpoints, claims: [nodePort] }), "owned");
    assert.equal(ownerOf(nodePort, { endpoints }), "possibly-owned");
  });

  it("mark nothing if one is unknown, or if there are none", () => {
    put(nodePort, "10.244.2.11", "10.244.9.9");
    put(service);
    for (const id of [nodePort, service]) {
      assert.equal(ownerOf(id, { endpoints, claims: [nodePort, service] }), "foreign");
    }
  });
});

it("every virtual server of both families is classified, always in the same way", () => {
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
