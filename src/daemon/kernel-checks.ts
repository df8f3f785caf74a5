import type { Clock } from "../base/clock.ts";
import type { Exclusive } from "../base/exclusive.ts";
import type { Logger } from "../base/log.ts";
import type { Kernel } from "../kernel/kernel.ts";
import type { DesiredState } from "../plan/desired-state.ts";
import type { Reconciler } from "../reconcile/reconciler.ts";
import { changeCount } from "../reconcile/report.ts";
import { AddressWatch } from "./address-watch.ts";
import { type DrainFinding, DrainWatch } from "./drain-watch.ts";
import type { KnownNode } from "./known-node.ts";
import { QuickChecks } from "./quick-checks.ts";
import type { SyncReporter } from "./sync-reporter.ts";

export interface KernelCheckParts {
  readonly kernel: Pick<Kernel, "link">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly reporter: SyncReporter;
  readonly reconciler: Reconciler;
  readonly node: KnownNode;
  readonly desired: DesiredState;
  /** A sync and a look never overlap: both change what is known of the kernel. */
  readonly exclusive: Exclusive;
  /** Called when a look found something that a sync must repair or serve. */
  readonly onFound: () => void;
}

/** Between two looks at the sizes of our sets. */
const setCheckMs = 5_000;

/** What is looked at between syncs: addresses, sets, rules, and what drains. */
export class KernelChecks {
  readonly #parts: KernelCheckParts;
  readonly #addressWatch: AddressWatch;
  readonly #drainWatch: DrainWatch;
  readonly #quickChecks: QuickChecks;

  /** `ruleCheckPeriodMs` 0: rules are not looked at. */
  constructor(parts: KernelCheckParts, ruleCheckPeriodMs: number) {
    const { exclusive } = parts;
    this.#parts = parts;
    this.#addressWatch = new AddressWatch(() => exclusive.run(() => this.#checkAddresses()), parts);
    this.#drainWatch = new DrainWatch(() => this.#checkDrains(), parts);
    this.#quickChecks = this.#makeQuickChecks(ruleCheckPeriodMs);
  }

  start(): void {
    this.#addressWatch.start();
    this.#quickChecks.start();
  }

  /** No look begins any more; one may still run. */
  stop(): void {
    this.#addressWatch.stop();
    this.#drainWatch.stop();
    this.#quickChecks.stop();
  }

  /** A sync is over: where something drains, it is looked at from now on. */
  synced(): void {
    if (this.#parts.reconciler.needsDrainCheck) this.#drainWatch.wake();
  }

  async #checkAddresses(): Promise<void> {
    const { node, reconciler, onFound } = this.#parts;
    const { network, isChanged } = await node.look();
    reconciler.noteBound(network.bound);
    if (isChanged || reconciler.needsObservation) onFound();
  }

  async #checkDrains(): Promise<DrainFinding> {
    const { exclusive, reconciler, reporter, desired } = this.#parts;
    const report = await exclusive.run(() => reconciler.checkDrains(desired));
    reporter.drained(report, reconciler.drainer);
    if (!reconciler.needsDrainCheck) return "nothing";
    return changeCount(report) > 0 ? "ending" : "waiting";
  }

  /** They wait for nothing and hold up nothing: while a sync runs, there is no look. */
  #makeQuickChecks(ruleCheckPeriodMs: number): QuickChecks {
    const { exclusive, reconciler, reporter, onFound } = this.#parts;
    const whenIdle = (look: () => Promise<readonly string[]>) => (): Promise<readonly string[]> =>
      exclusive.runIfIdle(look, []);
    const checks = [
      { name: "sets", intervalMs: setCheckMs, look: whenIdle(() => reconciler.checkSets()) },
      {
        name: "rules",
        intervalMs: ruleCheckPeriodMs,
        look: whenIdle(() => reconciler.checkRules()),
      },
    ];
    const onLost = (name: string, lost: readonly string[]): void => {
      reporter.lost(name, lost);
      onFound();
    };
    return new QuickChecks(checks, onLost, this.#parts);
  }
}
