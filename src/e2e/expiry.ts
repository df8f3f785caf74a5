/** The rights under deploy/kustomize/e2e are for one test. A later start deletes those that were not removed. */
import type { Clock } from "../base/clock.ts";
import { type BindingsApi, unlessMissing } from "./cluster/cluster-api.ts";
import { program } from "./objects.ts";

const validForHours = 24;

/**
 * Rejects if the rights were applied more than a day ago, after deleting their bindings. A user with other rights has no
 * such binding.
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
  // The cluster-wide binding is the last, because it grants the deletion of the others.
  for (const namespace of [program, "kube-system"]) {
    await unlessMissing(rbac.deleteNamespacedRoleBinding({ name: program, namespace }));
  }
  await unlessMissing(rbac.deleteClusterRoleBinding({ name: program }));
  throw new Error(
    `The rights of ${program} are older than ${validForHours} hours, and their bindings were deleted; apply deploy/kustomize/e2e again`,
  );
}
