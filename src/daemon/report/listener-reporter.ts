import type { LogKeys } from "../../base/log.ts";
import type { FamilySync } from "../../reconcile/iptables/tables-reconciler.ts";
import type { PendingChange } from "./dry-run-reporter.ts";
import { LoopReporter, type LoopSummary } from "./loop-reporter.ts";

/** Findings that exist only in userspace mode. */
export interface ListenerFindings {
  readonly listeners: number;
  readonly connections: number;
  /** In observe-only mode, the listeners that startup would open. */
  readonly pending: readonly PendingChange[];
  /** The syncs of the rules. Undefined if there are only listeners. */
  readonly families: readonly FamilySync[] | undefined;
}

/** The reporter for userspace mode. */
export class ListenerReporter extends LoopReporter<ListenerFindings> {
  protected override passesOf({ families }: ListenerFindings): readonly FamilySync[] | undefined {
    return families;
  }

  protected override noteFindings({ listeners, connections }: ListenerFindings): void {
    this.targets.log.verbose(2, "Listeners of userspace mode", { listeners, connections });
  }

  protected override figuresOf({ listeners }: ListenerFindings): LogKeys {
    return { listeners };
  }

  protected override pendingOf(
    summary: LoopSummary,
    findings: ListenerFindings,
  ): readonly PendingChange[] {
    return [...findings.pending, ...super.pendingOf(summary, findings)];
  }
}
