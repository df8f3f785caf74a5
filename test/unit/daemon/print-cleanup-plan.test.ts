import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type CleanUpPlan, objectOf, textOf } from "../../../src/daemon/print-cleanup-plan.ts";
import { emptyPlan } from "../../../src/reconcile/change-plan.ts";

const nothing: CleanUpPlan = {
  plan: emptyPlan,
  ...{ kept: [], files: [], unusedRuleCount: 0, modeChains: [], nftTables: [] },
};
const some: CleanUpPlan = {
  plan: {
    ...emptyPlan,
    changes: [
      { kind: "link-remove", link: "kube-ipvs0", reason: "unwanted" },
      { kind: "set-destroy", setName: "KUBE-CLUSTER-IP", reason: "unwanted" },
    ],
  },
  kept: [{ subject: "TCP 172.30.0.1:53", reason: "foreign-virtual-server" }],
  files: ["/run/kube-ipvs/drains.json"],
  unusedRuleCount: 12,
  modeChains: ["legacy IPv4 nat KUBE-SEP-A"],
  nftTables: ["ip kube-proxy"],
};

describe("the plan of a clean-up", () => {
  it("says so where there is nothing to remove", () => {
    assert.equal(textOf(nothing), "No changes.");
    assert.match(textOf({ ...nothing, kept: some.kept }), /^Kept TCP .*\nNo changes\.$/);
  });

  it("names what goes, and what stays with the reason", () => {
    assert.deepEqual(textOf(some).split("\n"), [
      "Link: 1",
      "  - kube-ipvs0  # unwanted",
      "",
      "Sets: 1",
      "  - KUBE-CLUSTER-IP  # unwanted",
      "",
      "iptables chains and jumps in the backend that is not in use: 12",
      "",
      "Chains of kube-proxy's mode iptables, unless a kube-proxy runs: 1",
      "  - legacy IPv4 nat KUBE-SEP-A",
      "",
      "Tables of kube-proxy's mode nftables, unless a kube-proxy runs: 1",
      "  - ip kube-proxy",
      "",
      "Files: 1",
      "  - /run/kube-ipvs/drains.json",
      "",
      "Kept TCP 172.30.0.1:53: it is not ours",
    ]);
  });

  it("gives machines the changes as other plans have them", () => {
    const { changes, files, kept } = objectOf(some) as Record<string, readonly unknown[]>;
    assert.deepEqual([changes?.length, files?.length, kept?.length], [2, 1, 1]);
  });
});
