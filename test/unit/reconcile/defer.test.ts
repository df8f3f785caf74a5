/** Which changes wait for their time. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setFor } from "../../../src/plan/sets.ts";
import type { Change } from "../../../src/reconcile/change.ts";
import { type DeferInput, deferChanges } from "../../../src/reconcile/defer.ts";
import { subjectKey, subjectOf, subjectText } from "../../../src/reconcile/subject.ts";
import { type VirtualServer, virtualServerKey } from "../../../src/state/virtual-server.ts";
import { ip } from "../../support/records.ts";

function serverAt(address: string, port = 80): VirtualServer {
  return {
    protocol: "TCP",
    address: ip(address),
    port,
    scheduler: "rr",
    persistenceTimeoutSeconds: 0,
    persistencePrefixLength: 32,
    flags: 0,
  };
}

function create(server: VirtualServer): Change {
  const key = virtualServerKey(server);
  return {
    kind: "virtual-server-create",
    key,
    after: server,
    mustBeNew: true,
    reason: "missing",
  };
}

function addReal(server: VirtualServer): Change {
  const key = virtualServerKey(server);
  const after = { address: ip("10.244.2.11"), port: 8080, weight: 1, forwardingMethod: 0 };
  return {
    kind: "real-server-create",
    key,
    virtualServer: server,
    after,
    reason: "missing",
  };
}

function bind(address: string): Change {
  return { kind: "address-add", address: ip(address), reason: "missing" };
}

const clusterIps = setFor("clusterIp", "IPv4");
const one = serverAt("10.96.0.10");
const two = serverAt("10.96.0.11");
const replacement: Change = {
  kind: "set-destroy",
  setName: clusterIps.name,
  reason: "incompatible-set",
};

function input(refused: readonly Change[], overrides: Partial<DeferInput> = {}): DeferInput {
  const keys = new Set(refused.map((change) => subjectKey(subjectOf(change))));
  return {
    isTouched: () => false,
    isRefused: (key) => keys.has(key),
    isAnyWaiting: true,
    isSuppressed: () => false,
    impossible: [],
    ...overrides,
  };
}

function text(change: Change): string {
  return `${change.kind} ${subjectText(subjectOf(change))}`;
}

describe("what waits: ", () => {
  it("nothing where nothing is refused: the plan as it is", () => {
    const planned = [create(one), addReal(one)];
    const { changes, deferred } = deferChanges(planned, input([], { isAnyWaiting: false }));
    assert.equal(changes, planned);
    assert.deepEqual(deferred, []);
  });

  it("nothing that planning touched, be it refused or reverted", () => {
    const planned = [create(one), addReal(one)];
    const isTouched: DeferInput["isTouched"] = (subject) =>
      "virtualServer" in subject && subject.virtualServer === virtualServerKey(one);
    const all = input(planned, { isTouched, isSuppressed: () => true });
    assert.deepEqual(deferChanges(planned, all).deferred, []);
  });

  it("a set that is known not to be replaceable", () => {
    const planned = [create(one)];
    const { changes, deferred } = deferChanges(planned, input([], { impossible: [replacement] }));
    assert.deepEqual(changes.map(text), [text(create(one))]);
    assert.deepEqual(deferred, [{ change: replacement, reason: "refused" }]);
  });
});

describe("a repair that a third party reverts", () => {
  function suppressing(subject: Change): DeferInput {
    const suppressed = subjectKey(subjectOf(subject));
    return input([], { isSuppressed: (key) => key === suppressed });
  }

  it("waits, alone", () => {
    const { changes, deferred } = deferChanges(
      [create(one), create(two), bind("10.96.0.10"), bind("10.96.0.11")],
      suppressing(bind("10.96.0.10")),
    );
    assert.deepEqual(changes.map(text), [create(one), create(two), bind("10.96.0.11")].map(text));
    assert.deepEqual(
      deferred.map(({ reason }) => reason),
      ["reverted"],
    );
  });

  it("waits with its real servers", () => {
    const { changes, deferred } = deferChanges(
      [create(one), create(two), addReal(one), addReal(two)],
      suppressing(create(one)),
    );
    assert.deepEqual(changes.map(text), [create(two), addReal(two)].map(text));
    assert.deepEqual(
      deferred.map(({ reason }) => reason),
      ["reverted", "reverted"],
    );
  });
});
