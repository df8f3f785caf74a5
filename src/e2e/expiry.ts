/** The permissions in deploy/kustomize/e2e are for one test. If they were not removed, a later run deletes them. */
import type { Clock } from "../base/clock.ts";
import { type BindingsApi, unlessMissing } from "./cluster/cluster-api.ts";
import { program } from "./objects.ts";

const validForHours = 24;

/**
 * If the permissions were applied more than a day ago, deletes their bindings and rejects. If the bindings do not
 * exist, the user has other permissions, and nothing is done.
 */
export async function requireFreshRights(
  rbac: BindingsApi,
  clock: Pick<Clock, "nowMs">,
): Promise<void> {
  const binding = await unlessMissing(rbac.readClusterRoleBinding({ name: program }));
  const appliedAt = binding?.metadata?.creationTimestamp;
  if (appliedAt === undefined) return;
  const ageHours = (clock.nowMs() - new Date(appliedAt).getTime()) / 3_600_000;
  if (ageHours <= validForHours) return;
  // The ClusterRoleBinding is deleted last, because it permits deleting the other bindings.
  for (const namespace of [program, "kube-system"]) {
    await unlessMissing(rbac.deleteNamespacedRoleBinding({ name: program, namespace }));
  }
  await unlessMissing(rbac.deleteClusterRoleBinding({ name: program }));
  throw new Error(
    `The permissions of ${program} were older than ${validForHours} hours, so their bindings were deleted; apply deploy/kustomize/e2e again`,
  );
}
