import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hostPort } from "../../../src/base/ip.ts";
import { Networks } from "../../../src/base/networks.ts";
import { servicePortsOf } from "../../../src/model/service-ports.ts";
import { frontendsOf, heldFrontends, reservedAddresses } from "../../../src/plan/frontends.ts";
import type { FamilyOptions, ReservedReason } from "../../../src/plan/options.ts";
import { cidr, familyOptions, ip, portRecord, serviceRecord } from "../../support/records.ts";

const reserved = new Map<ReturnType<typeof ip>, ReservedReason>([
  [ip("192.168.10.1"), "gateway-address"],
  [ip("192.168.10.255"), "broadcast-address"],
  [ip("192.168.10.5"), "api-server-address"],
]);

const cases: readonly { readonly address: string; readonly reason: ReservedReason | undefined }[] =
  [
    { address: "192.168.10.11", reason: "node-address" },
    { address: "192.168.10.1", reason: "gateway-address" },
    { address: "192.168.10.255", reason: "broadcast-address" },
    { address: "192.168.10.5", reason: "api-server-address" },
    { address: "203.0.113.5", reason: undefined },
  ];

function planned(address: string, options: FamilyOptions, ips: "externalIps" | "loadBalancerIps") {
  const [port] = servicePortsOf(serviceRecord({ [ips]: [ip(address)] }), "IPv4");
  assert.ok(port);
  const frontend = frontendsOf(port, options).find((one) => one.kind !== "cluster-ip");
  return { frontend, reserved: reservedAddresses(port, options) };
}

for (const ips of ["externalIps", "loadBalancerIps"] as const) {
  describe(`an address in ${ips}`, () => {
    for (const { address, reason } of cases) {
      const notices = reason === undefined ? [] : [{ address, reason, isServed: true }];

      it(`${address} is ${reason === undefined ? "bound" : `served, not bound, and reported as ${reason}`}`, () => {
        const { frontend, reserved: told } = planned(
          address,
          familyOptions("IPv4", { reserved }),
          ips,
        );
        assert.equal(frontend?.address, address);
        assert.equal(frontend.isBound, reason === undefined);
        assert.deepEqual(told, notices);
      });

      it(`${address} is ${reason === undefined ? "bound" : "not there"} with reservedAddresses: refuse`, () => {
        const options = familyOptions("IPv4", { reserved, isReservedRefused: true });
        const { frontend, reserved: told } = planned(address, options, ips);
        assert.equal(frontend?.isBound, reason === undefined ? true : undefined);
        assert.deepEqual(
          told,
          notices.map((notice) => ({ ...notice, isServed: false })),
        );
      });
    }
  });
}

describe("an address that is never served", () => {
  const kinds = (overrides: Parameters<typeof serviceRecord>[0], options: FamilyOptions) => {
    const [port] = servicePortsOf(serviceRecord(overrides), "IPv4");
    assert.ok(port);
    return {
      kinds: frontendsOf(port, options).map(({ kind }) => kind),
      told: reservedAddresses(port, options),
    };
  };
  const server = ip("192.168.10.5");
  const apiServers = [hostPort(server, 6443)];
  const options = familyOptions("IPv4", { reserved, apiServers });

  for (const ips of ["externalIps", "loadBalancerIps"] as const) {
    it(`is the address and port of an API server: ${ips}`, () => {
      const at = (port: number, protocol: "TCP" | "UDP" = "TCP") =>
        kinds({ [ips]: [server], ports: [portRecord({ port, protocol })] }, options);
      const told = [{ address: server, reason: "api-server-address", isServed: false }];
      assert.deepEqual(at(6443), { kinds: ["cluster-ip"], told });
      assert.equal(at(443).kinds.length, 2);
      assert.equal(at(6443, "UDP").kinds.length, 2);
    });

    it(`is a link-local one: ${ips}`, () => {
      const address = ip("169.254.169.254");
      const told = [{ address, reason: "link-local-address", isServed: false }];
      assert.deepEqual(kinds({ [ips]: [address] }, options), { kinds: ["cluster-ip"], told });
    });
  }

  it("is another Node's, at every port; this node's own address is served", () => {
    const [other, own] = [ip("192.168.10.12"), ip("192.168.10.11")];
    const nodes = new Map([other, own].map((address) => [address, "other-node-address"] as const));
    const onNode = familyOptions("IPv4", { reserved: nodes });
    const told = [{ address: other, reason: "other-node-address", isServed: false }];
    assert.deepEqual(kinds({ externalIps: [other] }, onNode), { kinds: ["cluster-ip"], told });
    assert.deepEqual(kinds({ loadBalancerIps: [own] }, onNode), {
      kinds: ["cluster-ip", "load-balancer"],
      told: [{ address: own, reason: "node-address", isServed: true }],
    });
  });

  it("is in a Node's pod CIDR, at every port, but an address of this node there is served", () => {
    const [pod, own] = [ip("10.244.2.7"), ip("10.244.2.1")];
    const podNetworks = new Networks([cidr("10.244.2.0/24"), cidr("fd00:244:2::/64")]);
    const known = familyOptions("IPv4", { podNetworks, nodeAddresses: new Set([own]) });
    const told = [{ address: pod, reason: "pod-address", isServed: false }];
    for (const ips of ["externalIps", "loadBalancerIps"] as const)
      assert.deepEqual(kinds({ [ips]: [pod] }, known), { kinds: ["cluster-ip"], told });
    assert.deepEqual(kinds({ externalIps: [own] }, known), {
      kinds: ["cluster-ip", "external-ip"],
      told: [{ address: own, reason: "node-address", isServed: true }],
    });
  });

  it("is the address and port of an API server on this node, as external IP and as node port", () => {
    const own = ip("192.168.10.11");
    const onNode = familyOptions("IPv4", { apiServers: [hostPort(own, 6443)] });
    const ports = [portRecord({ port: 6443, nodePort: 6443 })];
    const overrides = { type: "NodePort", externalIps: [own], ports } as const;
    assert.deepEqual(kinds(overrides, onNode), {
      kinds: ["cluster-ip"],
      told: [{ address: own, reason: "api-server-address", isServed: false }],
    });
  });

  it("is not a cluster IP, through which pods reach the API server's own Service", () => {
    const asConfigured = familyOptions("IPv4", { apiServers: [hostPort(server, 80)] });
    assert.deepEqual(kinds({ clusterIps: [server] }, asConfigured).kinds, ["cluster-ip"]);
  });
});

describe("a family whose addresses the kernel does not accept", () => {
  it("is served without a bound address", () => {
    const [port] = servicePortsOf(serviceRecord({ externalIps: [ip("203.0.113.5")] }), "IPv4");
    assert.ok(port);
    const frontends = frontendsOf(port, familyOptions("IPv4", { isLinkDisabled: true }));
    assert.deepEqual(
      frontends.map(({ kind, isBound }) => [kind, isBound]),
      [
        ["cluster-ip", false],
        ["external-ip", false],
      ],
    );
  });
});

describe("a cluster IP", () => {
  it("is always bound, because the cluster assigned it", () => {
    const [port] = servicePortsOf(serviceRecord({ clusterIps: [ip("192.168.10.5")] }), "IPv4");
    assert.ok(port);
    const options = familyOptions("IPv4", { reserved, isReservedRefused: true });
    assert.equal(frontendsOf(port, options)[0]?.isBound, true);
    assert.deepEqual(reservedAddresses(port, options), []);
  });
});

describe("an address in kubeIpvs.unboundAddresses", () => {
  const [clusterIp, external, balancer] = ["10.96.0.10", "203.0.113.5", "192.168.10.11"].map(ip);
  assert.ok(clusterIp && external && balancer);
  const unboundNetworks = new Networks([
    cidr("10.96.0.10/32"),
    cidr("192.168.10.0/24"),
    cidr("203.0.113.0/24"),
  ]);
  const planned = (
    held: readonly ReturnType<typeof ip>[],
    overrides: Partial<FamilyOptions> = {},
  ) => {
    const record = serviceRecord({ externalIps: [external], loadBalancerIps: [balancer] });
    const [port] = servicePortsOf({ ...record, clusterIps: [clusterIp] }, "IPv4");
    assert.ok(port);
    const options = familyOptions("IPv4", {
      nodeAddresses: new Set(held),
      unboundNetworks,
      ...overrides,
    });
    return {
      frontends: frontendsOf(port, options).map(({ kind, isBound }) => `${kind} ${isBound}`),
      held: heldFrontends(port, options).map(({ address, port: number }) => `${address} ${number}`),
      told: reservedAddresses(port, options).map(({ reason }) => reason),
    };
  };

  it("is served without being bound if it is an external or load-balancer IP, and not reported", () => {
    const frontends = ["cluster-ip true", "external-ip false", "load-balancer false"];
    for (const isReservedRefused of [false, true]) {
      const options = { isReservedRefused };
      assert.deepEqual(planned([], options), { frontends, held: [], told: [] });
      assert.deepEqual(planned([external, balancer], options), { frontends, held: [], told: [] });
    }
  });

  it("is neither bound nor served if it is a cluster IP that another link has", () => {
    const { frontends, held } = planned([clusterIp]);
    assert.deepEqual(frontends, ["external-ip false", "load-balancer false"]);
    assert.deepEqual(held, ["10.96.0.10 80"]);
  });

  it("is still reported if it is a gateway, which the node needs", () => {
    const reserved = new Map<ReturnType<typeof ip>, ReservedReason>([
      [external, "gateway-address"],
    ]);
    assert.deepEqual(planned([], { reserved }).told, ["gateway-address"]);
  });

  it("is bound and served if no setting lists it, also while another link has the cluster IP", () => {
    const { frontends, held } = planned([clusterIp], { unboundNetworks: new Networks() });
    assert.deepEqual(frontends, ["cluster-ip true", "external-ip true", "load-balancer true"]);
    assert.deepEqual(held, []);
  });
});
