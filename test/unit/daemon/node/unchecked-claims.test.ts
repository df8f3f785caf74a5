import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { UncheckedClaims } from "../../../../src/daemon/node/unchecked-claims.ts";
import { ip, serviceRecord } from "../../../support/records.ts";

const [known, fresh] = [ip("203.0.113.5"), ip("203.0.113.6")];
const none = { externalIps: new Set<never>(), loadBalancerIps: new Set<never>() };
const pending = { externalIps: new Set([fresh]), loadBalancerIps: new Set([fresh]) };

describe("a Service with a pending address", () => {
  it("is passed on without it, and completely after the check", () => {
    const claims = new UncheckedClaims();
    const service = serviceRecord({ externalIps: [known, fresh] });
    const [, admitted] = claims.admit([undefined, service], pending);
    assert.deepEqual(admitted, { ...service, externalIps: [known] });
    assert.deepEqual(claims.recheck(pending), []);
    assert.deepEqual(claims.recheck(none), [[admitted, service]]);
    assert.deepEqual(claims.recheck(none), []);
  });

  it("waits for load-balancer IPs only as long as these are pending", () => {
    const claims = new UncheckedClaims();
    const service = serviceRecord({ externalIps: [fresh], loadBalancerIps: [known, fresh] });
    const [, first] = claims.admit([undefined, service], pending);
    assert.deepEqual(first, { ...service, externalIps: [], loadBalancerIps: [known] });
    const [[, second] = []] = claims.recheck({ ...none, externalIps: new Set([fresh]) });
    assert.deepEqual(second, { ...service, externalIps: [] });
    assert.deepEqual(claims.recheck(none), [[second, service]]);
  });

  it("is later changed or removed as the object that was passed on", () => {
    const claims = new UncheckedClaims();
    const before = serviceRecord({ externalIps: [fresh] });
    const after = serviceRecord({ externalIps: [fresh], type: "NodePort" });
    const [, first] = claims.admit([undefined, before], pending);
    const [previous, second] = claims.admit([before, after], pending);
    assert.equal(previous, first);
    assert.deepEqual(second, { ...after, externalIps: [] });
    assert.deepEqual(claims.admit([after, undefined], pending), [second, undefined]);
    assert.deepEqual(claims.recheck(none), []);
  });

  it("is the same object if none of its addresses is pending", () => {
    const service = serviceRecord({ externalIps: [known] });
    const change = new UncheckedClaims().admit([service, service], pending);
    assert.deepEqual([change[0] === service, change[1] === service], [true, true]);
  });
});
