import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { DesiredView } from "../../../src/plan/desired-state.ts";
import type { Change } from "../../../src/reconcile/change.ts";
import { findDrift } from "../../../src/reconcile/find-drift.ts";
import { CachedState } from "../../../src/reconcile/observed/cached-state.ts";
import { Differences } from "../../../src/reconcile/observed/difference.ts";
import { observedParts } from "../../../src/reconcile/observed/observer.ts";
import { planChanges } from "../../../src/reconcile/plan-changes.ts";
import { Scope } from "../../../src/reconcile/scope.ts";
import { type ServerKey, toServerKey } from "../../../src/state/virtual-server.ts";
import { virtual } from "../../contract/servers.ts";

/** A JavaScript call accepts about 125,000 arguments. */
const keys: readonly ServerKey[] = Array.from({ length: 150_000 }, (_, index) =>
  toServerKey(`UDP ${index}`),
);
const virtualServer = virtual({ protocol: "UDP" });
const server = { virtualServer, realServers: [], kind: "cluster-ip" } as const;

const desired: DesiredView = {
  virtualServer: () => server,
  virtualServerKeys: () => keys,
  hasEntry: () => false,
  entries: () => [],
  hasAddress: () => false,
  addresses: () => [],
  serversOfAddress: () => [],
  servicesOfServer: () => [],
  servicesOfEntry: () => [],
  servicesOfAddress: () => [],
  ranges: () => [],
  tunnels: () => [],
};

describe("more virtual servers than a call accepts arguments", () => {
  it("are checked for UDP flows at startup", () => {
    const plan = planChanges({
      desired,
      cached: new CachedState(),
      scope: new Scope(),
      rules: new Map(),
      sysctls: [],
      missingModules: [],
      conflicts: new Set(),
      ownership: { foreignVirtualServers: "keep", excludeCIDRs: [] },
      isOwned: () => true,
      drains: { isDraining: () => false },
      drain: { tcpDeadlineSeconds: 0, udpDeadlineSeconds: 0 },
      isWeightKept: () => false,
      parts: observedParts,
      parse: () => undefined,
      isFirst: true,
    });
    let step = plan.next();
    while (step.done !== true) step = plan.next();
    const flows = step.value.changes.filter(({ kind }) => kind === "conntrack-delete");
    assert.equal(flows.length, keys.length);
  });

  it("are each reported if a third party removed them all", () => {
    const differences = new Differences();
    for (const key of keys) differences.noteServer(key, server, undefined);
    const changes = keys.map(
      (key): Change => ({
        kind: "virtual-server-create",
        key,
        after: virtualServer,
        reason: "missing",
      }),
    );
    const drifts = findDrift(changes, differences, () => true);
    assert.equal(drifts.length, keys.length);
  });
});
