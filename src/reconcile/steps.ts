import type { Drainer } from "./drainer.ts";
import { addEntries, bindAddresses, removeEntries, unbindAddresses } from "./entry-steps.ts";
import type { FlowSweeper } from "./flow-sweeper.ts";
import { ensureLink, writeRules } from "./foundation-steps.ts";
import type { ChangeKind } from "./report.ts";
import { applyServers, removeServers } from "./server-steps.ts";
import { ensureSets, removeTemporarySets } from "./set-steps.ts";
import type { SyncContext } from "./sync-context.ts";
import { writeSysctls } from "./sysctl-step.ts";

export interface Step {
  /** For the report, when the step as a whole fails. */
  readonly kind: ChangeKind;
  readonly run: (context: SyncContext) => Promise<void>;
}

/**
 * The order keeps packets right at every moment: what makes a virtual server work comes before it, its
 * address after it; removal runs the other way round. An address leaves before its entry in
 * KUBE-IPVS-IPS, or for a moment the node's own services would answer there.
 */
export function stepsWith(drainer: Drainer, sweeper: FlowSweeper): readonly Step[] {
  return [
    { kind: "sysctl-write", run: writeSysctls },
    { kind: "link-create", run: ensureLink },
    { kind: "set-create", run: ensureSets },
    { kind: "entry-add", run: addEntries },
    { kind: "rules-write", run: writeRules },
    { kind: "set-destroy", run: removeTemporarySets },
    { kind: "virtual-server-create", run: applyServers },
    { kind: "address-add", run: bindAddresses },
    { kind: "real-server-remove", run: (context) => drainer.release(context) },
    { kind: "virtual-server-remove", run: removeServers },
    { kind: "address-remove", run: unbindAddresses },
    { kind: "entry-remove", run: removeEntries },
    { kind: "flow-remove", run: (context) => sweeper.sweepAfterSync(context) },
  ];
}

/** A step throws when nothing is known about its request (ENOBUFS, time-out); the others still run. */
export async function runStep(step: Step, context: SyncContext): Promise<void> {
  try {
    await step.run(context);
  } catch (error) {
    context.report.fail(step.kind, "request", error);
  }
}
