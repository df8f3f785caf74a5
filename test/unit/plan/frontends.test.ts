import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { servicePortsOf } from "../../../src/model/service-ports.ts";
import { frontendsOf, reservedAddresses } from "../../../src/plan/frontends.ts";
import type { FamilyOptions, ReservedReason } from "../../../src/plan/options.ts";
import { familyOptions, ip, serviceRecord } from "../../support/records.ts";

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
  describe(`a frontend of ${ips}`, () => {
    for (const { address, reason } of cases) {
      const notices = reason === undefined ? [] : [{ address, reason }];

      it(`${address} is ${reason === undefined ? "bound" : `served, not bound, and told: ${reason}`}`, () => {
        const { frontend, reserved: told } = planned(
          address,
          familyOptions("IPv4", { reserved }),
          ips,
        );
        assert.equal(frontend?.address, address);
        assert.equal(frontend.isBound, reason === undefined);
        assert.deepEqual(told, notices);
      });

      it(`${address} is ${reason === undefined ? "bound" : "not there"} where reserved ones are refused`, () => {
        const options = familyOptions("IPv4", { reserved, isReservedRefused: true });
        const { frontend, reserved: told } = planned(address, options, ips);
        assert.equal(frontend?.isBound, reason === undefined ? true : undefined);
        assert.deepEqual(told, notices);
      });
    }
  });
}

describe("a cluster IP", () => {
  it("is bound whatever it equals: the cluster gives it out", () => {
    const [port] = servicePortsOf(serviceRecord({ clusterIps: [ip("192.168.10.5")] }), "IPv4");
    assert.ok(port);
    const options = familyOptions("IPv4", { reserved, isReservedRefused: true });
    assert.equal(frontendsOf(port, options)[0]?.isBound, true);
    assert.deepEqual(reservedAddresses(port, options), []);
  });
});
