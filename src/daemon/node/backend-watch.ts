import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";
import { type NextRun, Periodic } from "../../base/periodic.ts";
import type { BackendFinding, Iptables } from "../../kernel/kernel.ts";

/** Shortest pause between checks. A check is costly: it starts five processes and reads all of the node's rules. */
const shortestPauseMs = 600_000;

type WatchedIptables = Pick<Iptables, "backend" | "choice" | "checkBackend">;

export interface BackendWatchContext {
  readonly clock: Clock;
  readonly log: Logger;
  /** Ends the program. */
  readonly fail?: (error: Error) => void;
}

/**
 * Checks periodically whether the node's other programs use the same iptables backend as kube-ipvs, because kubelet or
 * a network plugin may start later than kube-ipvs. If they use the other backend, kube-ipvs exits. After its restart,
 * it writes all rules in the backend that they use, and then removes its rules from the other one.
 */
export class BackendWatch {
  readonly #iptables: WatchedIptables;
  readonly #log: Logger;
  readonly #fail: (error: Error) => void;
  readonly #checks: Periodic;
  #hasReportedBoth: boolean;
  #isStopped = false;

  /**
   * `verificationPeriodMs` is the shortest interval between checks. `iptables.choice` is the backend detected at
   * startup.
   */
  constructor(
    iptables: WatchedIptables,
    context: BackendWatchContext,
    verificationPeriodMs: number,
  ) {
    this.#iptables = iptables;
    this.#log = context.log;
    this.#fail = context.fail ?? (() => {});
    const intervalMs = Math.max(verificationPeriodMs, shortestPauseMs);
    const run = () => this.#look();
    this.#checks = new Periodic(
      { name: "iptables backend check", intervalMs, maxShare: 1, run },
      context,
    );
    this.#hasReportedBoth = iptables.choice.warning !== undefined;
  }

  start(): void {
    this.#checks.start();
  }

  /** Starts no further checks. If a check is still running, its result is ignored. */
  stop(): void {
    this.#isStopped = true;
    this.#checks.stop();
  }

  async #look(): Promise<NextRun> {
    try {
      const finding = await this.#iptables.checkBackend();
      if (!this.#isStopped) this.#report(finding);
    } catch (error) {
      this.#log.warn("Cannot check the iptables backend", { err: errorText(error) });
    }
    return "paced";
  }

  #report({ backend, reason, warning }: BackendFinding): void {
    const inUse = this.#iptables.backend;
    if (backend !== inUse) {
      this.stop();
      const found = `The node uses the iptables backend ${backend} (${reason}), but kube-ipvs uses ${inUse}`;
      this.#fail(new Error(`${found}; exiting to restart with ${backend}`));
      return;
    }
    const isBoth = warning !== undefined;
    if (isBoth && !this.#hasReportedBoth) {
      this.#log.warn("Both iptables backends are in use", {
        reason: warning,
        advice: `Configure all programs on the node to use ${inUse}; iptables-legacy-save and iptables-nft-save show each backend's rules`,
      });
    }
    this.#hasReportedBoth = isBoth;
  }
}
