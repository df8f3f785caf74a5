/** Runs the daemon in this process and the current network namespace. Uses only its composition root. */
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import type { DaemonView, ModeView } from "../../src/daemon/operator/daemon-view.ts";
import { ProxyHealth } from "../../src/daemon/report/proxy-health.ts";
import { type DaemonContext, startDaemon } from "../../src/daemon/start.ts";
import type { BackendChoice } from "../../src/kernel/iptables/backend.ts";
import type { Kernel } from "../../src/kernel/kernel.ts";
import { openKernel } from "../../src/kernel/open-kernel.ts";
import { labRules } from "./rules-writer.ts";
import { silentMetrics } from "./silent-metrics.ts";

export interface InProcessContext
  extends Pick<DaemonContext, "config" | "source" | "holderRecord"> {
  /** The daemon's log. If absent, nothing is logged. */
  readonly log?: DaemonContext["log"];
  readonly metrics?: DaemonContext["metrics"];
  /** The iptables backend. If absent, the daemon detects it, which starts a few programs. */
  readonly iptablesBackend?: BackendChoice | undefined;
}

export interface InProcessDaemon {
  /** The daemon's kernel clients, which stay open until the stop. */
  readonly kernel: Kernel;
  /** The daemon's state, for readers. */
  readonly view: DaemonView;
  /** The view that exists in every mode. */
  readonly modeView: ModeView;
  /** Resolves when all reported objects are in the kernel. */
  settled(): Promise<void>;
  /** Stops the daemon. Leaves the kernel state in place. */
  stop(): Promise<void>;
}

/** Starts the daemon. It may not have settled yet. */
export async function startInProcess(parts: InProcessContext): Promise<InProcessDaemon> {
  const { config, source, log = silentLogger, metrics = silentMetrics, iptablesBackend } = parts;
  const record = parts.holderRecord === undefined ? {} : { holderRecord: parts.holderRecord };
  const { mode, virtualAddresses, portRangeMarks: marks } = config;
  const portRangeMarks = marks === undefined ? [] : [marks];
  const wanted = config.rules === "auto" ? labRules : config.rules;
  const rules = mode === "ipvs" ? wanted : undefined;
  const kernel = await openKernel({
    ...{ log: silentLogger, rules, virtualAddresses, portRangeMarks, iptablesBackend },
  });
  const clock = systemClock;
  const health = new ProxyHealth(clock, 2 * config.syncPeriodMs);
  try {
    const own = { config, kernel, source, metrics, health, clock, log };
    const daemon = await startDaemon({ ...own, ...record });
    return {
      kernel,
      get view() {
        if (daemon.view.mode !== "ipvs") throw new Error("The mode is not ipvs");
        return daemon.view;
      },
      modeView: daemon.view,
      settled: () => daemon.settled(),
      stop: async () => {
        await daemon.stop();
        kernel.close();
      },
    };
  } catch (error) {
    kernel.close();
    throw error;
  }
}
