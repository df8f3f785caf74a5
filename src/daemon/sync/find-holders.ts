/**
 * At startup, finds which of several Services with equal claims to an address is already served there, if no record
 * shows it. Reads nothing if there are no such Services. Rejects if the kernel cannot be read.
 */
import type { IpFamily } from "../../base/ip.ts";
import type { Iptables, Ipvs } from "../../kernel/kernel.ts";
import type { Holder } from "../../plan/claims/claim.ts";
import { holderByEndpoints } from "../../plan/claims/holder-by-endpoints.ts";
import type { DesiredState } from "../../plan/desired-state.ts";
import type { TablesPlan } from "../../plan/iptables/tables-plan.ts";
import { holderByRules } from "../../reconcile/iptables/holder-by-rules.ts";

/** In IPVS mode, reads only the real servers of the contested virtual servers. */
export async function findHolders(
  desired: Pick<DesiredState, "claims" | "holdClaims">,
  ipvs: Pick<Ipvs, "readRealServers">,
): Promise<void> {
  const undecided = desired.claims.undecided();
  if (undecided.length === 0) return;
  const ids = undecided.flatMap(({ claims: [first] }) => first?.planned.virtualServer ?? []);
  const observed = await ipvs.readRealServers(ids);
  const holders = undecided.flatMap(({ key, claims }, index): (readonly [string, Holder])[] => {
    const holder = holderByEndpoints(claims, observed[index] ?? []);
    return holder === undefined ? [] : [[key, holder]];
  });
  desired.holdClaims(new Map(holders));
}

/** In iptables mode, reads the rules that jump to the chains of Services. */
export async function findHoldersInTables(
  plan: Pick<TablesPlan, "desired" | "ruleSet">,
  iptables: Pick<Iptables, "observe" | "render">,
  families: readonly IpFamily[],
): Promise<void> {
  const undecided = plan.desired.claims.undecided();
  for (const family of families) {
    const ofFamily = undecided.filter(
      ({ claims: [first] }) => first?.plan.servicePort.family === family,
    );
    if (ofFamily.length === 0) continue;
    const observed = await iptables.observe(family, { planned: plan.ruleSet(family) });
    const holders = ofFamily.flatMap((one): (readonly [string, Holder])[] => {
      const holder = holderByRules(one, observed, (rule) => iptables.render(family, rule));
      return holder === undefined ? [] : [[one.key, holder]];
    });
    plan.desired.holdClaims(new Map(holders));
  }
}
