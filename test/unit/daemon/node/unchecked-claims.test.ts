import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { UncheckedClaims } from "../../../../src/daemon/node/unchecked-claims.ts";
import { ip, serviceRecord } from "../../../support/records.ts";

const [known, fresh] = [ip("203.0.113.5"), ip("203.0.113.6")];
const none = new Set<never>();

describe("a Service with an unchecked external IP", () => {
  it("is passed on without it, and completely after the check", () => {
    const claims = new UncheckedClaims();
    const service = serviceRecord({ externalIps: [known, fresh] });
    const [, admitted] = claims.admit([undefined, service], new Set([fresh]));
    assert.deepEqual(admitted, { ...service, externalIps: [known] });
    assert.deepEqual(claims.recheck(new Set([fresh])), []);
    assert.deepEqual(claims.recheck(none), [[admitted, service]]);
    assert.deepEqual(claims.recheck(none), []);
  });

  it("is later changed or removed as the object that was passed on", () => {
    const claims = new UncheckedClaims();
    const before = serviceRecord({ externalIps: [fresh] });
    const after = serviceRecord({ externalIps: [fresh], type: "NodePort" });
    const unchecked = new Set([fresh]);
    const [, first] = claims.admit([undefined, before], unchecked);
    const [previous, second] = claims.admit([before, after], unchecked);
    assert.equal(previous, first);
    assert.deepEqual(second, { ...after, externalIps: [] });
    assert.deepEqual(claims.admit([after, undefined], unchecked), [second, undefined]);
    assert.deepEqual(claims.recheck(none), []);
  });

  it("is the same object if every external IP is checked", () => {
    const service = serviceRecord({ externalIps: [known] });
    const change = new UncheckedClaims().admit([service, service], new Set([fresh]));
    assert.deepEqual([change[0] === service, change[1] === service], [true, true]);
  });
});
