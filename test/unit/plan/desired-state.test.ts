import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EndpointSliceRecord, ServiceRecord } from "../../../src/api/objects.ts";
import type { ServiceName } from "../../../src/base/service-name.ts";
import { ChangeTracker } from "../../../src/model/change-tracker.ts";
import { DesiredState } from "../../../src/plan/desired-state.ts";
import type { DirtyKeys } from "../../../src/plan/dirty-keys.ts";
import { realServerKey } from "../../../src/state/real-server.ts";
import { toServerKey, virtualServerKey } from "../../../src/state/virtual-server.ts";
import fc from "../../support/fast-check.ts";
import { planService } from "../../support/plan-at-once.ts";
import { entriesText } from "../../support/plan-text.ts";
import {
  cidr,
  endpointRecord,
  ip,
  localEndpoint,
  planOptions,
  portRecord,
  serviceRecord,
  sliceRecord,
} from "../../support/records.ts";

const options = planOptions();

function put(
  desired: DesiredState,
  service: ServiceRecord,
  slices: readonly EndpointSliceRecord[] = [],
): void {
  for (const plan of planService(service.name, service, slices, options)) {
    desired.replace(plan.service, plan.family, plan.servicePorts);
  }
}

describe("DesiredState", () => {
  it("marks only the virtual server whose endpoint changed", () => {
    const desired = new DesiredState();
    put(desired, serviceRecord(), [sliceRecord([endpointRecord("10.244.2.2")])]);
    put(desired, serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }));
    desired.takeDirty();
    put(desired, serviceRecord(), [
      sliceRecord([endpointRecord("10.244.2.2"), endpointRecord("10.244.2.3")]),
    ]);
    const dirty = desired.takeDirty();
    assert.deepEqual([...dirty.virtualServers], ["TCP 10.96.0.10:80"]);
    assert.equal(dirty.setEntries.size, 0);
    assert.equal(dirty.addresses.size, 0);
    assert.equal(dirty.rules.size, 0);
  });

  it("reports unserved addresses in a fixed order, regardless of the order of events", () => {
    const closed = (name: ServiceName, clusterIp: string, loadBalancerIp: string): ServiceRecord =>
      serviceRecord({
        name,
        type: "LoadBalancer",
        clusterIps: [ip(clusterIp)],
        loadBalancerIps: [ip(loadBalancerIp)],
        sourceRanges: [cidr("198.51.100.0/24")],
      });
    const one = closed("default/one", "10.96.0.10", "203.0.113.2");
    const other = closed("default/other", "10.96.0.11", "203.0.113.1");
    for (const services of [
      [one, other],
      [other, one],
    ]) {
      const desired = new DesiredState();
      for (const service of services) put(desired, service);
      assert.deepEqual(desired.deniedToNode("IPv4").map(virtualServerKey), [
        "TCP 203.0.113.1:80",
        "TCP 203.0.113.2:80",
      ]);
    }
  });

  it("counts the service ports with endpoints only on other nodes, by policy and family", () => {
    const desired = new DesiredState();
    const elsewhere = [sliceRecord([endpointRecord("10.244.2.2")])];
    const local = { type: "NodePort", isExternalPolicyLocal: true } as const;
    const counts = (): readonly number[] => [
      desired.withoutLocalEndpoints("external", "IPv4"),
      desired.withoutLocalEndpoints("internal", "IPv4"),
      desired.withoutLocalEndpoints("external", "IPv6"),
    ];
    const ports = [portRecord({ nodePort: 30_080 })];
    put(desired, serviceRecord({ ...local, ports }), elsewhere);
    assert.deepEqual(counts(), [1, 0, 0]);
    put(desired, serviceRecord({ ...local, ports, isInternalPolicyLocal: true }), elsewhere);
    assert.deepEqual(counts(), [1, 1, 0]);
    put(desired, serviceRecord({ ...local, ports }), [sliceRecord([localEndpoint("10.244.1.2")])]);
    assert.deepEqual(counts(), [0, 0, 0]);
  });

  it("reports UDP endpoints that serve although they are not chosen", () => {
    const terminating = { isReady: false, isServing: true, isTerminating: true };
    const leaving = endpointRecord("10.244.2.3", terminating);
    const stillServing = (
      protocol: "TCP" | "UDP",
      ...more: readonly (typeof leaving)[]
    ): unknown => {
      const desired = new DesiredState();
      const ports = [{ name: "http", protocol, port: 8080 }];
      const slice = sliceRecord([endpointRecord("10.244.2.2"), ...more], { ports });
      put(desired, serviceRecord({ ports: [portRecord({ protocol })] }), [slice]);
      return desired.virtualServer(toServerKey(`${protocol} 10.96.0.10:80`))?.stillServing;
    };
    const both = new Set(["10.244.2.2:8080", "10.244.2.3:8080"]);
    assert.deepEqual(stillServing("UDP", leaving), both);
    assert.equal(stillServing("UDP"), undefined);
    assert.equal(stillServing("TCP", leaving), undefined);
  });

  it("marks nothing if a change was reverted", () => {
    const desired = new DesiredState();
    put(desired, serviceRecord(), [sliceRecord([endpointRecord("10.244.2.2")])]);
    desired.takeDirty();
    put(desired, serviceRecord(), [sliceRecord([endpointRecord("10.244.2.2")])]);
    const dirty = desired.takeDirty();
    assert.equal(dirty.virtualServers.size + dirty.setEntries.size + dirty.rules.size, 0);
  });

  it("keeps an address that another service port still needs", () => {
    const desired = new DesiredState();
    const two = [portRecord(), portRecord({ name: "alt", port: 81 })];
    put(desired, serviceRecord({ ports: two }));
    desired.takeDirty();
    put(desired, serviceRecord({ ports: [portRecord()] }));
    const dirty = desired.takeDirty();
    assert.deepEqual([...dirty.virtualServers], ["TCP 10.96.0.10:81"]);
    assert.equal(dirty.addresses.size, 0);
    assert.equal(desired.hasAddress(ip("10.96.0.10")), true);
  });

  it("marks the rules when the first entry is added and when the last one is removed", () => {
    const desired = new DesiredState();
    put(desired, serviceRecord());
    assert.deepEqual([...desired.takeDirty().rules], ["IPv4"]);
    put(desired, serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }));
    assert.equal(desired.takeDirty().rules.size, 0);
    desired.replace("default/a", "IPv4", []);
    assert.equal(desired.takeDirty().rules.size, 0);
    desired.replace("default/b", "IPv4", []);
    assert.deepEqual([...desired.takeDirty().rules], ["IPv4"]);
  });

  it("names the Service that stopped needing a virtual server, an address and set entries", () => {
    const desired = new DesiredState();
    put(desired, serviceRecord());
    desired.takeDirty();
    desired.replace("default/a", "IPv4", []);
    assert.deepEqual(
      desired.takeDirty().formerServices,
      new Map([
        ["TCP 10.96.0.10:80", "default/a"],
        ["KUBE-IPVS-IPS 10.96.0.10", "default/a"],
        ["KUBE-CLUSTER-IP 10.96.0.10,tcp:80", "default/a"],
        ["10.96.0.10", "default/a"],
      ]),
    );
  });

  it("gives a contested virtual server to the older Service, in any order", () => {
    const shared = { externalIps: [ip("198.18.0.7")] };
    const older = serviceRecord({
      ...shared,
      name: "z/older",
      createdAtSeconds: 1,
      affinitySeconds: 5,
    });
    const newer = serviceRecord({
      ...shared,
      name: "a/newer",
      createdAtSeconds: 2,
      clusterIps: [ip("10.96.0.11")],
    });
    for (const order of [
      [older, newer],
      [newer, older],
    ]) {
      const desired = new DesiredState();
      for (const service of order) put(desired, service);
      const server = desired.virtualServer(toServerKey("TCP 198.18.0.7:80"));
      assert.equal(server?.virtualServer.persistenceTimeoutSeconds, 5);
      assert.deepEqual(desired.claims.lost(), [
        {
          virtualServer: "TCP 198.18.0.7:80",
          winner: "z/older:http",
          loser: "a/newer:http",
          reason: "older",
        },
      ]);
      desired.replace("z/older", "IPv4", []);
      assert.equal(
        desired.virtualServer(toServerKey("TCP 198.18.0.7:80"))?.virtualServer
          .persistenceTimeoutSeconds,
        0,
      );
      assert.deepEqual(desired.claims.lost(), []);
    }
  });

  it("lets neither policy nor source ranges of the losing Service affect the owner's virtual server", () => {
    const shared = { type: "LoadBalancer", loadBalancerIps: [ip("203.0.113.1")] } as const;
    const older = serviceRecord({ name: "default/older", createdAtSeconds: 1, ...shared });
    const newer = serviceRecord({
      name: "default/newer",
      createdAtSeconds: 2,
      ...shared,
      clusterIps: [ip("10.96.0.11")],
      isExternalPolicyLocal: true,
      sourceRanges: [cidr("198.51.100.0/24")],
    });
    const about = (desired: DesiredState): readonly string[] =>
      entriesText(desired).filter((text) => text.includes(" 203.0.113.1,"));
    for (const services of [
      [older, newer],
      [newer, older],
    ]) {
      const desired = new DesiredState();
      for (const service of services) put(desired, service);
      assert.deepEqual(about(desired), ["add KUBE-LOAD-BALANCER 203.0.113.1,tcp:80"]);
      assert.deepEqual(desired.deniedToNode("IPv4"), []);
      desired.replace("default/older", "IPv4", []);
      assert.deepEqual(about(desired), [
        "add KUBE-LOAD-BALANCER 203.0.113.1,tcp:80",
        "add KUBE-LOAD-BALANCER-FW 203.0.113.1,tcp:80",
        "add KUBE-LOAD-BALANCER-LOCAL 203.0.113.1,tcp:80",
        "add KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.1,tcp:80,198.51.100.0/24",
      ]);
      assert.equal(desired.deniedToNode("IPv4").length, 1);
      desired.replace("default/newer", "IPv4", []);
      assert.deepEqual(entriesText(desired), []);
    }
  });

  it("does not contest an address that one Service names twice", () => {
    const desired = new DesiredState();
    const twice = { externalIps: [ip("198.18.0.7")], loadBalancerIps: [ip("198.18.0.7")] };
    put(desired, serviceRecord(twice));
    put(desired, serviceRecord({ ...twice, affinitySeconds: 5 }));
    assert.deepEqual(desired.claims.lost(), []);
    desired.replace("default/a", "IPv4", []);
    assert.deepEqual([...desired.virtualServerKeys()], []);
  });
});

/** An event: a Service or one of its slices appears, changes or disappears. */
type Event =
  | {
      readonly kind: "service";
      readonly index: number;
      readonly service: ServiceRecord | undefined;
    }
  | {
      readonly kind: "slice";
      readonly index: number;
      readonly slice: EndpointSliceRecord | undefined;
    };

const names = ["default/a", "default/b", "kube-system/dns"];
const addressPool = ["10.244.1.1", "10.244.1.2", "10.244.2.1", "10.244.2.2"];

/** A reserved address that a source range must contain to admit the node's own connections. */
const nodeAddress = "192.168.10.11";

const serviceArbitrary = fc.record({
  clusterIp: fc.constantFrom("10.96.0.10", "10.96.0.11"),
  nodePort: fc.constantFrom(0, 30080, 30081),
  external: fc.subarray(["198.18.0.7", "198.18.0.8", nodeAddress]),
  loadBalancer: fc.subarray(["198.18.0.7", "203.0.113.1"]),
  ranges: fc.subarray(["198.51.100.0/24", `${nodeAddress}/32`]),
  isLocal: fc.boolean(),
  affinitySeconds: fc.constantFrom(0, 10_800),
  port: fc.constantFrom(80, 443),
  createdAtSeconds: fc.constantFrom(1, 2),
});

const eventArbitrary: fc.Arbitrary<Event> = fc.oneof(
  fc
    .record({
      kind: fc.constant("service" as const),
      index: fc.nat(names.length - 1),
      service: fc.option(serviceArbitrary, { nil: undefined }),
    })
    .map(
      ({ kind, index, service }): Event => ({
        kind,
        index,
        service:
          service === undefined
            ? undefined
            : serviceRecord({
                name: names[index] as ServiceName,
                clusterIps: [ip(service.clusterIp)],
                externalIps: service.external.map(ip),
                loadBalancerIps: service.loadBalancer.map(ip),
                sourceRanges: service.ranges.map(cidr),
                isExternalPolicyLocal: service.isLocal,
                affinitySeconds: service.affinitySeconds,
                createdAtSeconds: service.createdAtSeconds,
                ports: [portRecord({ port: service.port, nodePort: service.nodePort })],
              }),
      }),
    ),
  fc
    .record({
      kind: fc.constant("slice" as const),
      index: fc.nat(names.length - 1),
      addresses: fc.option(fc.subarray(addressPool), { nil: undefined }),
      isReady: fc.boolean(),
    })
    .map(
      ({ kind, index, addresses, isReady }): Event => ({
        kind,
        index,
        slice:
          addresses === undefined
            ? undefined
            : sliceRecord(
                addresses.map((address) =>
                  (address.startsWith("10.244.1.") ? localEndpoint : endpointRecord)(address, {
                    isReady,
                  }),
                ),
                { name: `${names[index]}-1`, service: names[index] as ServiceName },
              ),
      }),
    ),
);

/** The whole desired state, by the names that {@link marked} uses. */
function wanted(desired: DesiredState): ReadonlyMap<string, unknown> {
  const servers = [...desired.virtualServerKeys()].map((key) => {
    const { virtualServer, realServers = [] } = desired.virtualServer(key) ?? {};
    return [`server ${key}`, [virtualServer, realServers.map(realServerKey).sort()]] as const;
  });
  const entries = entriesText(desired).map((text) => [text.replace("add", "entry"), true] as const);
  const addresses = [...desired.addresses()].map(
    (address) => [`address ${address}`, true] as const,
  );
  const rules = [desired.filledSets("IPv4"), desired.deniedToNode("IPv4")];
  return new Map<string, unknown>([...servers, ...entries, ...addresses, ["rules IPv4", rules]]);
}

function marked({ virtualServers, setEntries, addresses, rules }: DirtyKeys): ReadonlySet<string> {
  const entries = [...setEntries].flatMap(([set, those]) => [...those].map((one) => [set, one]));
  return new Set([
    ...[...virtualServers].map((key) => `server ${key}`),
    ...entries.map(([set, entry]) => `entry ${set} ${entry}`),
    ...[...addresses].map((address) => `address ${address}`),
    ...[...rules].map((family) => `rules ${family}`),
  ]);
}

/** The reported facts about Services, in addition to the desired kernel state. */
function reported(desired: DesiredState): readonly unknown[] {
  return [
    desired.claims
      .reserved()
      .map(({ address, servicePort }) => `${address} ${servicePort}`)
      .sort(),
    desired.claims.lost().length,
    desired.withoutLocalEndpoints("external", "IPv4"),
    desired.withoutLocalEndpoints("internal", "IPv4"),
  ];
}

describe("an incremental plan", () => {
  it("equals a complete plan after any order of events, and marks the differences", () => {
    fc.assert(
      fc.property(fc.array(eventArbitrary, { maxLength: 60 }), fc.nat(4), (events, every) => {
        const tracker = new ChangeTracker(0);
        const incremental = new DesiredState();
        const services = new Map<number, ServiceRecord | undefined>();
        const slices = new Map<number, EndpointSliceRecord | undefined>();
        const sync = (): void => {
          const before = wanted(incremental);
          for (const { name, service, slices } of tracker.take().services) {
            for (const plan of planService(name, service, slices, options)) {
              incremental.replace(plan.service, plan.family, plan.servicePorts);
            }
          }
          const after = wanted(incremental);
          const marks = marked(incremental.takeDirty());
          for (const key of new Set([...before.keys(), ...after.keys()])) {
            if (!marks.has(key)) assert.deepEqual(after.get(key), before.get(key), key);
          }
        };
        for (const [position, event] of events.entries()) {
          if (event.kind === "service") {
            tracker.noteService(services.get(event.index), event.service);
            services.set(event.index, event.service);
          } else {
            tracker.noteSlice(slices.get(event.index), event.slice);
            slices.set(event.index, event.slice);
          }
          if (position % (every + 1) === 0) sync();
        }
        sync();
        const fresh = new DesiredState();
        for (const [index, service] of services) {
          const slice = slices.get(index);
          if (service !== undefined) put(fresh, service, slice === undefined ? [] : [slice]);
        }
        assert.deepEqual(wanted(incremental), wanted(fresh));
        assert.deepEqual(reported(incremental), reported(fresh));
      }),
      { numRuns: 300 },
    );
  });
});
