import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";
import { type NextRun, Periodic } from "../../base/periodic.ts";
import type { BackendFinding, Iptables } from "../../kernel/kernel.ts";

/** A check starts five processes and reads all rules of the node. */
const shortestPauseMs = 600_000;

type WatchedIptables = Pick<Iptables, "backend" | "choice" | "checkBackend">;

/**
 * Looks from time to time whether the node's other programs speak to the same iptables backend as we
 * do: a network plugin or kubelet may have come after us. What differs is logged once, as long as it lasts,
 * and not followed: our rules would then stand in both.
 */
export class BackendWatch {
  readonly #iptables: WatchedIptables;
  readonly #log: Logger;
  readonly #checks: Periodic;
  #hasReportedBoth: boolean;
  #hasReportedOther = false;
  #isStopped = false;

  /** `verificationPeriodMs`: no check more often than this. What was found at start is given. */
  constructor(
    iptables: WatchedIptables,
    parts: { readonly clock: Clock; readonly log: Logger },
    verificationPeriodMs: number,
  ) {
    this.#iptables = iptables;
    this.#log = parts.log;
    const intervalMs = Math.max(verificationPeriodMs, shortestPauseMs);
    const run = () => this.#look();
    this.#checks = new Periodic(
      { name: "iptables backend check", intervalMs, maxShare: 1, run },
      parts,
    );
    this.#hasReportedBoth = iptables.choice.warning !== undefined;
  }

  start(): void {
    this.#checks.start();
  }

  /** No further check begins; one that runs reports nothing. */
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
    const isOther = backend !== inUse;
    if (isOther && !this.#hasReportedOther) {
      this.#log.warn("Node uses a different iptables backend than kube-ipvs", {
        backend: inUse,
        found: backend,
        reason,
        advice: `Drain and reboot the node: kube-ipvs then starts with ${backend}, and no rules remain in ${inUse}`,
      });
    }
    const isBoth = warning !== undefined && !isOther;
    if (isBoth && !this.#hasReportedBoth) {
      this.#log.warn("Two iptables backends are in use", {
        reason: warning,
        advice: `Configure all programs on the node to use ${inUse}; iptables-legacy-save and iptables-nft-save show the rules of each backend`,
      });
    }
    this.#hasReportedOther = isOther;
    this.#hasReportedBoth = isBoth;
  }
}
