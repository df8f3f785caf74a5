/** The proxy in this process: the composition root on objects in memory. */
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { ProxyHealth } from "../../src/daemon/proxy-health.ts";
import { startDaemon } from "../../src/daemon/start.ts";
import { openKernel } from "../../src/kernel/open-kernel.ts";
import { silentMetrics } from "../../src/metrics/metrics.ts";
import { configurationText } from "../golden/configuration.ts";
import { MemorySource, type NamedObject } from "../support/memory-source.ts";
import { node } from "../support/objects.ts";
import { serviceObjects } from "./services.ts";

export interface Proxy {
  /** The kernel keeps its state. */
  stop(): Promise<void>;
}

type Fields = Readonly<Record<string, unknown>>;

/** Starts it in the namespace of this thread; resolves when every Service is in the kernel. */
export async function startProxy(fields: Fields = {}): Promise<Proxy> {
  // UDP flows must be gone before an affinity ends.
  const base = { kubeIpvs: { ignoreRunningKubeProxy: true }, ipvs: { udpTimeout: "5s" } };
  const text = configurationText({ ...base, ...fields });
  const path = "proxy.yaml";
  const readFile = (name: string): string => (name === path ? text : readFileSync(name, "utf8"));
  const { config } = loadConfig(new Map([["config", [path]]]), { readFile, hostname });
  const kernel = await openKernel({ log: silentLogger });
  const source = new MemorySource();
  source.apply(...([node(), ...serviceObjects()] as unknown as readonly NamedObject[]));
  const daemon = await startDaemon({
    config,
    kernel,
    source,
    clock: systemClock,
    log: silentLogger,
    metrics: silentMetrics,
    health: new ProxyHealth(systemClock, config.syncPeriodMs * 2),
  });
  await daemon.settled();
  return {
    stop: async () => {
      await daemon.stop();
      kernel.close();
    },
  };
}
