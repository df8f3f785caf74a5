import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/api-error.ts";
import type { BindingsApi } from "../../../src/e2e/cluster/cluster-api.ts";
import { requireFreshRights } from "../../../src/e2e/expiry.ts";

const appliedAt = new Date("2026-11-01T00:00:00Z");
const hourMs = 3_600_000;

/** Bindings of `deploy/kustomize/e2e` that were applied at {@link appliedAt}, and the deleted ones. */
function bindings(): { readonly rbac: BindingsApi; readonly deleted: readonly string[] } {
  const deleted: string[] = [];
  const rbac: Record<keyof BindingsApi, (given: never) => Promise<unknown>> = {
    readClusterRoleBinding: async ({ name }: { readonly name: string }) => ({
      metadata: { name, creationTimestamp: appliedAt },
    }),
    deleteClusterRoleBinding: async ({ name }: { readonly name: string }) => deleted.push(name),
    deleteNamespacedRoleBinding: async (given: {
      readonly name: string;
      readonly namespace: string;
    }) => deleted.push(`${given.namespace}/${given.name}`),
  };
  return { rbac: rbac as unknown as BindingsApi, deleted };
}

const clockAt = (hours: number): { nowMs(): number } => ({
  nowMs: () => appliedAt.getTime() + hours * hourMs,
});

describe("kube-ipvs-e2e's permissions", () => {
  it("are valid for a day", async () => {
    const { rbac, deleted } = bindings();
    await requireFreshRights(rbac, clockAt(24));
    assert.deepEqual(deleted, []);
  });

  it("are deleted if they are older, the cluster-wide binding last", async () => {
    const { rbac, deleted } = bindings();
    await assert.rejects(requireFreshRights(rbac, clockAt(24.1)), /older than 24 hours/);
    assert.deepEqual(deleted, [
      "kube-ipvs-e2e/kube-ipvs-e2e",
      "kube-system/kube-ipvs-e2e",
      "kube-ipvs-e2e",
    ]);
  });

  it("are not required for a user with other permissions", async () => {
    const missing = new ApiError("Not found", { status: 404, reason: "NotFound" });
    const rbac = { ...bindings().rbac, readClusterRoleBinding: () => Promise.reject(missing) };
    await requireFreshRights(rbac, clockAt(1_000));
  });
});
