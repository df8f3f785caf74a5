import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { planService } from "../../support/plan-at-once.ts";
import {
  endpointRecord,
  ip,
  planOptions,
  serviceRecord,
  sliceRecord,
} from "../../support/records.ts";

/** The virtual servers of a Service with an external IP. */
function addresses(areExternalIpsIgnored: boolean): readonly string[] {
  const service = serviceRecord({ externalIps: [ip("203.0.113.7")] });
  const slices = [sliceRecord([endpointRecord("10.244.1.2")])];
  const options = { ...planOptions(), areExternalIpsIgnored };
  return planService(service.name, service, slices, options)
    .flatMap(({ servicePorts }) => servicePorts)
    .flatMap(({ virtualServers }) => virtualServers)
    .map(({ virtualServer }) => virtualServer.address);
}

describe("external IPs", () => {
  it("are served, unless the feature gate AllowServiceExternalIPs is off", () => {
    assert.deepEqual(addresses(false), ["10.96.0.10", "203.0.113.7"]);
    assert.deepEqual(addresses(true), ["10.96.0.10"]);
  });
});
