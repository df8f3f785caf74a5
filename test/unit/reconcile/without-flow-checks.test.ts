import assert from "node:assert/strict";
import { it } from "node:test";
import type { Change } from "../../../src/reconcile/change.ts";
import {
  type ChangePlan,
  emptyPlan,
  withoutFlowChecks,
} from "../../../src/reconcile/change-plan.ts";
import { toServerKey } from "../../../src/state/virtual-server.ts";
import { ip } from "../../support/records.ts";

const check: Change = {
  kind: "conntrack-delete",
  key: toServerKey("UDP 10.96.0.10:53"),
  selection: { destination: ip("10.96.0.10"), destinationPort: 53 },
  reason: "stale-conntrack",
};
const change: Change = {
  kind: "address-remove",
  address: ip("10.96.0.9"),
  reason: "unwanted",
} as Change;

it("no change is planned if the kernel state is correct, even with UDP Services", () => {
  assert.deepEqual(withoutFlowChecks({ ...emptyPlan, changes: [check] }).changes, []);
});

it("all other changes stay, with their Services", () => {
  const plan: ChangePlan = {
    ...emptyPlan,
    changes: [change, check],
    servicesOf: () => ["default/web"],
  };
  const shown = withoutFlowChecks(plan);
  assert.deepEqual(shown.changes, [change]);
  assert.deepEqual(shown.servicesOf(change), ["default/web"]);
});
