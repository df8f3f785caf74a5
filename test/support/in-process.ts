/** The daemon in this process, on the kernel of the present network namespace: its composition root, no more. */
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import type { DaemonView, ModeView } from "../../src/daemon/operator/daemon-view.ts";
import { ProxyHealth } from "../../src/daemon/report/proxy-health.ts";
import { type DaemonParts, startDaemon } from "../../src/daemon/start.ts";
import type { BackendChoice } from "../../src/kernel/iptables/backend.ts";
import type { Kernel } from "../../src/kernel/kernel.ts";
import { openKernel } from "../../src/kernel/open-kernel.ts";
import { silentMetrics } from "./silent-metrics.ts";

export interface InProcessParts extends Pick<DaemonParts, "config" | "source" | "holderRecord"> {
  /** Absent: nobody listens. */
  readonly log?: DaemonParts["log"];
  readonly metrics?: DaemonParts["metrics"];
  /** Absent: found out, which starts a few programs. */
  readonly iptablesBackend?: BackendChoice;
}

export interface InProcessDaemon {
  /** What it talks to; open until the stop. */
  readonly kernel: Kernel;
  /** Its state, for whoever only reads. */
  readonly view: DaemonView;
  /** The same in any mode. */
  readonly modeView: ModeView;
  /** Resolves when everything the source reported so far is in the kernel. */
  settled(): Promise<void>;
  /** The kernel keeps its state. */
  stop(): Promise<void>;
}

/** Starts it; it may not be settled yet. */
export async function startInProcess(parts: InProcessParts): Promise<InProcessDaemon> {
  const { config, source, log = silentLogger, metrics = silentMetrics, iptablesBackend } = parts;
  const record = parts.holderRecord === undefined ? {} : { holderRecord: parts.holderRecord };
  const backend = iptablesBackend === undefined ? {} : { iptablesBackend };
  const { virtualAddresses } = config;
  const kernel = await openKernel({ log: silentLogger, virtualAddresses, ...backend });
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
