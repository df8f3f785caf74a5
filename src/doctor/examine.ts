/** Runs the checks on a node. */
import type { Check, Finding, Need, SkippedCheck } from "./check.ts";
import { addressChecks } from "./checks/addresses.ts";
import { clusterChecks } from "./checks/cluster.ts";
import { ipvsChecks } from "./checks/ipvs.ts";
import { kernelChecks } from "./checks/kernel.ts";
import { netfilterChecks } from "./checks/netfilter.ts";
import { packetChecks } from "./checks/packets.ts";
import { otherProxyCheck, processChecks } from "./checks/processes.ts";
import { tunnelChecks } from "./checks/tunnels.ts";
import { isIpvsAvailable, type Node } from "./node.ts";

/** All checks, in the order of the report. */
export const checks: readonly Check[] = [
  ...kernelChecks,
  ...ipvsChecks,
  ...netfilterChecks,
  ...packetChecks,
  ...addressChecks,
  ...tunnelChecks,
  otherProxyCheck,
  ...clusterChecks,
  ...processChecks,
];

export interface Examination {
  readonly findings: readonly Finding[];
  readonly skipped: readonly SkippedCheck[];
}

/** Runs all checks that apply to the mode, one after the other. Skips checks whose needs are not met. */
export async function examine(node: Node): Promise<Examination> {
  const findings: Finding[] = [];
  const skipped: SkippedCheck[] = [];
  for (const { name, why, run, needs = [], modes } of checks) {
    if (modes !== undefined && !modes.includes(node.mode)) continue;
    const reason = await skipReason(needs, node);
    if (reason === undefined) findings.push({ name, ...(await run(node)), why });
    else skipped.push({ name, reason });
  }
  return { findings, skipped };
}

/** Why a need is not met. Undefined if all needs are met. */
async function skipReason(needs: readonly Need[], node: Node): Promise<string | undefined> {
  for (const need of needs) {
    const reason = await reasons[need](node);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

type Reason = string | undefined;

const reasons: Readonly<Record<Need, (node: Node) => Reason | Promise<Reason>>> = {
  installed: ({ isBeforeInstall }) => (isBeforeInstall ? "--before-install is given" : undefined),
  cluster: ({ cluster }) => ("skipped" in cluster ? cluster.skipped : undefined),
  ipvs: async (node) => ((await isIpvsAvailable(node)) ? undefined : "IPVS is not available"),
  // If the request to the daemon fails, the check is not skipped, and its verdict is unknown.
  daemon: async ({ daemon }) => {
    const answer = await daemon().catch(() => undefined);
    return answer !== undefined && "skipped" in answer ? answer.skipped : undefined;
  },
};
