import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hostPort } from "../../../src/base/ip.ts";
import { toServiceName } from "../../../src/base/service-name.ts";
import type { DirtyKeys } from "../../../src/plan/dirty-keys.ts";
import { isTouched, Scope } from "../../../src/reconcile/scope.ts";
import type { Subject } from "../../../src/reconcile/subject.ts";
import { addressEntry } from "../../../src/state/set-entry.ts";
import { toServerKey } from "../../../src/state/virtual-server.ts";
import { ip } from "../../support/records.ts";

const [address, other] = [ip("10.96.0.10"), ip("10.96.0.11")];
const virtualServer = toServerKey("TCP 10.96.0.10:80");

const touched: DirtyKeys = {
  virtualServers: new Set([virtualServer]),
  setEntries: new Map([["KUBE-IPVS-IPS", new Set([addressEntry(address)])]]),
  addresses: new Set([address]),
  rules: new Set(["IPv4"]),
  formerServices: new Map(),
};

const chain = { type: "chain", table: "nat", chainName: "KUBE-SERVICES" } as const;

const rows: readonly (readonly [subject: Subject, expected: boolean])[] = [
  [{ type: "virtual-server", virtualServer }, true],
  [{ type: "virtual-server", virtualServer: toServerKey("TCP 10.96.0.11:80") }, false],
  [{ type: "real-server", virtualServer, realServer: hostPort("10.244.2.11", 80) }, true],
  [{ type: "entry", setName: "KUBE-IPVS-IPS", entry: addressEntry(address) }, true],
  [{ type: "entry", setName: "KUBE-IPVS-IPS", entry: addressEntry(other) }, false],
  [{ type: "entry", setName: "KUBE-CLUSTER-IP", entry: addressEntry(address) }, false],
  [{ type: "address", address }, true],
  [{ type: "address", address: other }, false],
  [{ ...chain, family: "IPv4" }, true],
  [{ ...chain, family: "IPv6" }, false],
  [{ type: "sysctl", path: "net/ipv4/ip_forward" }, false],
];

describe("the scope of planning", () => {
  for (const [subject, expected] of rows) {
    it(`${expected ? "contains" : "does not contain"} ${JSON.stringify(subject)}`, () => {
      assert.equal(isTouched(subject, touched), expected);
    });
  }
});

describe("a scope", () => {
  const more: DirtyKeys = {
    virtualServers: new Set([toServerKey("TCP 10.96.0.11:80")]),
    setEntries: new Map([["KUBE-IPVS-IPS", new Set([addressEntry(other)])]]),
    addresses: new Set([other]),
    rules: new Set(),
    formerServices: new Map([[toServerKey("TCP 10.96.0.11:80"), "default/newer"]]),
  };

  it("does not accumulate for each sync that fails", () => {
    const scope = new Scope();
    let reads = 0;
    const counted = {
      ...touched,
      get virtualServers() {
        reads += 1;
        return touched.virtualServers;
      },
    };
    for (let sync = 0; sync < 10; sync += 1) scope.include(counted);
    const before = reads;
    assert.deepEqual(scope.virtualServers, touched.virtualServers);
    assert.equal(reads, before + 1);
  });

  it("contains everything that was included, and does not change the included lists", () => {
    const scope = new Scope();
    scope.include(touched);
    assert.deepEqual(scope.virtualServers, touched.virtualServers);
    scope.include(more);
    scope.includeServer(toServerKey("TCP 10.96.0.12:80"));
    const servers = [
      virtualServer,
      toServerKey("TCP 10.96.0.11:80"),
      toServerKey("TCP 10.96.0.12:80"),
    ];
    assert.deepEqual(new Set(scope.virtualServers), new Set(servers));
    assert.deepEqual(
      scope.setEntries,
      new Map([["KUBE-IPVS-IPS", new Set([addressEntry(address), addressEntry(other)])]]),
    );
    assert.deepEqual(scope.addresses, new Set([address, other]));
    assert.equal(touched.virtualServers.size, 1);
    assert.equal(touched.setEntries.get("KUBE-IPVS-IPS")?.size, 1);
  });

  it("contains all keys after a full comparison is requested", () => {
    const scope = new Scope();
    scope.include(touched);
    scope.areAllServers = true;
    scope.areAllMembers = true;
    assert.deepEqual(
      [scope.virtualServers, scope.setEntries, scope.addresses],
      Array(3).fill(undefined),
    );
  });

  it("names the last Service that stopped needing a key, before and after keys are read", () => {
    const formerServices = new Map([
      [toServerKey("TCP 10.96.0.11:80"), toServiceName("default/older")],
    ]);
    const scope = new Scope();
    scope.include({ ...more, formerServices });
    scope.include(more);
    assert.equal(scope.formerService(toServerKey("TCP 10.96.0.11:80")), "default/newer");
    assert.equal(scope.virtualServers?.size, 1);
    assert.equal(scope.formerService(toServerKey("TCP 10.96.0.11:80")), "default/newer");
    assert.equal(scope.formerService(toServerKey("TCP 10.96.0.12:80")), undefined);
  });
});
