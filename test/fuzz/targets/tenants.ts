/**
 * A hostile tenant and 50 Services of other tenants, in each mode. Nothing that the tenant writes may change how others
 * are served.
 */
import { largestSteps, type TenantStep, tenantSteps } from "../hostile-tenant.ts";
import type { FuzzTarget } from "../target.ts";
import { type Mode, TenantNode } from "../tenant-node.ts";

function target(mode: Mode): FuzzTarget<TenantStep> {
  let node: TenantNode | undefined;
  return {
    name: `tenant-${mode}`,
    isDecoder: false,
    runs: { short: 300, long: 10_000 },
    kept: largestSteps,
    inputs: tenantSteps,
    run: async (step) => {
      if (node === undefined) {
        node = new TenantNode(mode);
        await node.start();
      }
      await node.step(step);
      return step.isGone ? "refused" : "taken";
    },
    stop: async () => node?.stop(),
    figures: () => node?.summary ?? "",
  };
}

export const targets: readonly FuzzTarget<TenantStep>[] = (
  ["ipvs", "iptables", "userspace"] as const
).map(target);
