import type { LogKeys } from "../../base/log.ts";
import type { PendingChange } from "./dry-run-reporter.ts";
import { LoopReporter, type LoopSummary } from "./loop-reporter.ts";

/** Findings that exist only in userspace mode. */
export interface ListenerFindings {
  readonly listeners: number;
  readonly connections: number;
  /** Listeners that startup would open, and rules that it would write. */
  readonly pending: readonly PendingChange[];
}

/** The reporter for userspace mode. */
export class ListenerReporter extends LoopReporter<ListenerFindings> {
  protected override noteFindings({ listeners, connections }: ListenerFindings): void {
    this.targets.log.verbose(2, "Listeners of userspace mode", { listeners, connections });
  }

  protected override figuresOf({ listeners }: ListenerFindings): LogKeys {
    return { listeners };
  }

  protected override pendingOf(
    _: LoopSummary,
    { pending }: ListenerFindings,
  ): readonly PendingChange[] {
    return pending;
  }
}
