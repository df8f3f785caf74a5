/** Cases in which the choice cannot be known. test/lab/hashing-schedulers.test.ts compares choices with the kernel. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hashedServer } from "../../../src/explain/packet/hashed-server.ts";
import { virtualServerFlags } from "../../../src/state/virtual-server.ts";
import { ip } from "../../support/records.ts";

const packet = { source: ip("192.168.10.1"), destination: ip("10.96.0.10") };
const { schedulerFallback, schedulerPort } = virtualServerFlags;

interface Given {
  readonly flags?: number;
  readonly weights?: readonly number[];
  /** The endpoint that has reached its connection limit. */
  readonly fullIndex?: number;
}

/** The last part of the chosen endpoint's address. */
function chosen(scheduler: string, given: Given = {}): string | undefined {
  const { flags = 0, weights = [1, 1], fullIndex } = given;
  const realServers = weights.map((weight, index) => ({
    ...{ address: ip(`10.244.1.${index + 1}`), port: 8080, weight },
    forwardingMethod: 0,
    ...(index === fullIndex
      ? { limit: { upper: 1, lower: 0 }, activeConnections: 1, inactiveConnections: 0 }
      : {}),
  }));
  const virtualServer = {
    ...({ protocol: "TCP", address: packet.destination, port: 80, scheduler, flags } as const),
    ...{ persistenceTimeoutSeconds: 0, persistencePrefixLength: 32 },
  };
  return hashedServer({ virtualServer, realServers }, packet)?.address.split(".").at(-1);
}

describe("the choice of a scheduler", () => {
  it("is unknown unless it hashes addresses", () => {
    for (const scheduler of ["rr", "wlc", "lblc"]) assert.equal(chosen(scheduler), undefined);
    for (const scheduler of ["sh", "dh", "mh"]) assert.notEqual(chosen(scheduler), undefined);
  });

  it("is unknown without endpoints", () => {
    for (const scheduler of ["sh", "dh", "mh"])
      assert.equal(chosen(scheduler, { weights: [] }), undefined);
  });

  it("is unknown if the client's port is hashed", () => {
    for (const scheduler of ["sh", "mh"])
      assert.equal(chosen(scheduler, { flags: schedulerPort }), undefined);
  });

  it("is unknown for mh if an endpoint's earlier weight is unknown", () => {
    assert.equal(chosen("mh", { weights: [1, 0] }), undefined);
  });

  it("is another endpoint with a fallback, and the client is rejected without one", () => {
    assert.equal(chosen("sh"), "2");
    for (const given of [{ weights: [1, 0] }, { fullIndex: 1 }]) {
      const choices = [0, schedulerFallback].map((flags) => chosen("sh", { ...given, flags }));
      assert.deepEqual(choices, ["2", "1"]);
    }
  });
});
