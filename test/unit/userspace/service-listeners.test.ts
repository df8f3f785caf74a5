/** Tests that userspace mode does not serve addresses or clients that the other modes reject. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceRecord } from "../../../src/api/objects.ts";
import { hostPort, parseCidr } from "../../../src/base/ip.ts";
import { Networks } from "../../../src/base/networks.ts";
import { renderRule } from "../../../src/kernel/iptables/render.ts";
import { servicePortsOf } from "../../../src/model/service-ports.ts";
import { frontendsOf } from "../../../src/plan/frontends.ts";
import type { FamilyOptions, PlanOptions } from "../../../src/plan/options.ts";
import { portalRules } from "../../../src/userspace/portal-rules.ts";
import type { ServiceListener } from "../../../src/userspace/service-listeners.ts";
import { serviceListeners } from "../../support/plan-at-once.ts";
import {
  cidr,
  familyOptions,
  ip,
  planOptions,
  portRecord,
  serviceRecord,
} from "../../support/records.ts";

const nodeAddress = "192.168.10.11";
const reserved = new Map([
  [ip("192.168.10.1"), "gateway-address"],
  [ip("192.168.10.12"), "other-node-address"],
  [ip("192.168.10.5"), "api-server-address"],
] as const);

function optionsWith(family: Partial<FamilyOptions>, more: Partial<PlanOptions> = {}): PlanOptions {
  const ofFamily = familyOptions("IPv4", {
    reserved,
    podNetworks: new Networks([cidr("10.244.2.0/24")]),
    apiServers: [hostPort("192.168.10.5", 6443)],
    ...family,
  });
  return planOptions({ families: new Map([["IPv4", ofFamily]]), ...more });
}

function listenerOf(record: Partial<ServiceRecord>, options: PlanOptions): ServiceListener {
  const [listener = assert.fail()] = serviceListeners(serviceRecord(record), [], options);
  return listener;
}

describe("addresses in userspace mode", () => {
  const named = [
    ...[nodeAddress, "192.168.10.1", "192.168.10.12", "192.168.10.5"],
    ...["169.254.169.254", "10.244.2.7", "203.0.113.9"],
  ];
  for (const isReservedRefused of [false, true]) {
    for (const port of [80, 6443]) {
      it(`are those of IPVS mode at port ${port}, with reserved ones ${isReservedRefused ? "not served" : "served"}`, () => {
        const options = optionsWith({ isReservedRefused });
        const record = { externalIps: named.map(ip), ports: [portRecord({ port })] };
        const { addresses } = listenerOf(record, options);
        const ofFamily = options.families.get("IPv4") ?? assert.fail();
        const [servicePort = assert.fail()] = servicePortsOf(serviceRecord(record), "IPv4");
        const served = frontendsOf(servicePort, ofFamily).map(({ address }) => address);
        assert.deepEqual(addresses, served);
        assert.ok(!addresses.includes(ip("169.254.169.254")));
        assert.ok(!addresses.includes(ip("192.168.10.12")));
        assert.ok(!addresses.includes(ip("10.244.2.7")));
        assert.equal(addresses.includes(ip("192.168.10.5")), port === 80 && !isReservedRefused);
        assert.ok(addresses.includes(ip("203.0.113.9")));
      });
    }
  }

  it("do not include external IPs if the feature gate AllowServiceExternalIPs is off", () => {
    const record = { externalIps: [ip("203.0.113.9")], clusterIps: [ip("10.96.0.10")] };
    const { addresses } = listenerOf(record, optionsWith({}, { areExternalIpsIgnored: true }));
    assert.deepEqual(addresses, ["10.96.0.10"]);
  });
});

describe("source ranges in userspace mode", () => {
  const record: Partial<ServiceRecord> = {
    type: "LoadBalancer",
    loadBalancerIps: [ip("203.0.113.9")],
    sourceRanges: [parseCidr("198.51.100.0/24") ?? assert.fail()],
    ports: [portRecord({ port: 80, nodePort: 30_080 })],
  };
  const linesOf = (options: PlanOptions): readonly string[] => {
    const wanted = listenerOf(record, options);
    const localPorts = { port: 40_001, portOnLoopback: 40_001 };
    return portalRules("IPv4", [{ wanted, localPorts }])
      .chains.filter(({ name }) => name.endsWith("CONTAINER"))
      .flatMap(({ rules }) => rules.map((rule) => renderRule("IPv4", rule)))
      .map((line) => line.replace(/ -m comment --comment \S+/, "").replace(/ -p tcp.*--dport/, ""));
  };

  it("restrict load-balancer IPs to clients of the ranges", () => {
    assert.deepEqual(linesOf(optionsWith({})), [
      "-d 10.96.0.10/32 80 -j REDIRECT --to-ports 40001",
      "-s 198.51.100.0/24 -d 203.0.113.9/32 80 -j REDIRECT --to-ports 40001",
      "-p tcp -m tcp --dport 30080 -j REDIRECT --to-ports 40001",
    ]);
  });

  it("also restrict node ports with strict source ranges", () => {
    const edges = { answerPing: false, masqueradeNodeToLocal: false, strictSourceRanges: true };
    assert.ok(
      linesOf(optionsWith({ edges })).includes(
        "-s 198.51.100.0/24 30080 -j REDIRECT --to-ports 40001",
      ),
    );
  });
});
