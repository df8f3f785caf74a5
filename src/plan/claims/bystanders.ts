/** Plans that win or lose a virtual server because another plan changed. Pure. */
import { type ServerKey, virtualServerKey } from "../../state/virtual-server.ts";
import type { ServicePortPlan } from "../service-port-plan.ts";
import type { WinnerChange } from "./claims.ts";
import type { ServerClaim } from "./server-claims.ts";

/** A plan, with all of its set entries and denied addresses or only those that change. */
export type Effects = Pick<ServicePortPlan, "setEntries" | "deniedToNode"> & {
  readonly plan: ServicePortPlan;
};

/**
 * The effects on plans other than `own` when the owner of `key` changes: what they no longer request, and what they
 * request now.
 */
export function effectsOnOthers(
  key: ServerKey,
  { before, after }: WinnerChange<ServerClaim>,
  own: readonly (ServicePortPlan | undefined)[],
): { readonly lost: readonly Effects[]; readonly won: readonly Effects[] } {
  const partOf = (claim: ServerClaim | undefined): readonly Effects[] =>
    claim === undefined || own.includes(claim.plan) ? [] : [partAbout(key, claim.plan)];
  if (before?.plan === after?.plan) return { lost: [], won: [] };
  return { lost: partOf(before), won: partOf(after) };
}

function partAbout(key: ServerKey, plan: ServicePortPlan): Effects {
  return {
    plan,
    setEntries: plan.setEntries.filter(({ claim }) => claim === key),
    deniedToNode: plan.deniedToNode.filter((id) => virtualServerKey(id) === key),
  };
}
