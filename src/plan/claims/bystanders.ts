/** Finds plans that gain or lose a virtual server because another plan changed. Pure. */
import { type ServerKey, virtualServerKey } from "../../state/virtual-server.ts";
import type { ServicePortPlan } from "../service-port-plan.ts";
import type { WinnerChange } from "./claims.ts";
import type { ServerClaim } from "./server-claims.ts";

/** A plan, with those of its set entries and denied addresses that are affected. */
export type Effects = Pick<ServicePortPlan, "setEntries" | "deniedToNode"> & {
  readonly plan: ServicePortPlan;
};

/**
 * The effects on plans other than `own` when the owner of `key` changes: what the former owner no longer requests, and
 * what the new owner requests now.
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
