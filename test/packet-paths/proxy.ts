/** Runs the proxy in this process: the composition root with objects in memory. */
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { silentEvents } from "../../src/api/event.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import type { Config } from "../../src/config/config.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { ProxyHealth } from "../../src/daemon/report/proxy-health.ts";
import { beginUserspace } from "../../src/daemon/userspace/begin-userspace.ts";
import { configurationText } from "../golden/configuration.ts";
import { type InProcessDaemon, startInProcess } from "../support/in-process.ts";
import { MemorySource, type NamedObject } from "../support/memory-source.ts";
import { type ApiObject, node } from "../support/objects.ts";
import { silentMetrics } from "../support/silent-metrics.ts";
import { node2 } from "./places.ts";
import { serviceObjects } from "./services.ts";

export type Proxy = Pick<InProcessDaemon, "stop" | "view" | "modeView">;

type Fields = Readonly<Record<string, unknown>>;

/** Starts the proxy in the namespace of this thread. Resolves when every Service is in the kernel. */
export async function startProxy(
  fields: Fields = {},
  objects: readonly ApiObject[] = serviceObjects(),
): Promise<Proxy> {
  const source = sourceOf(objects);
  const daemon = await startInProcess({ config: configOf(fields), source });
  await daemon.settled();
  const others = [node({ name: "node-2", addresses: Object.values(node2) })];
  source.reportNodes(...(others as unknown as readonly NamedObject[]));
  await daemon.settled();
  return daemon;
}

/** Like {@link startProxy}, in userspace mode. Resolves when every Service has its listeners. */
export async function startUserspaceProxy(
  fields: Fields = {},
): Promise<Pick<Proxy, "stop" | "modeView">> {
  // A long UDP timeout, because on a busy machine an answer may take longer than the usual one.
  const config = { ...configOf({ mode: "userspace", ...fields }), udpTimeoutMs: 10_000 };
  const health = new ProxyHealth(systemClock, 2 * config.syncPeriodMs);
  const parts = { clock: systemClock, log: silentLogger, metrics: silentMetrics, health };
  const { stop, view } = await beginUserspace(config, {
    ...parts,
    source: sourceOf(serviceObjects()),
    events: silentEvents,
  });
  while (health.notReadyReason !== undefined) await pause(10);
  return { stop, modeView: view };
}

function configOf(fields: Fields): Config {
  // UDP flows must end before an affinity ends.
  const base = { kubeIpvs: { ignoreRunningKubeProxy: true }, ipvs: { udpTimeout: "5s" } };
  const text = configurationText({ ...base, ...fields });
  const path = "proxy.yaml";
  const readFile = (name: string): string => (name === path ? text : readFileSync(name, "utf8"));
  return loadConfig(new Map([["config", [path]]]), { readFile, hostname }).config;
}

function sourceOf(objects: readonly ApiObject[]): MemorySource {
  const source = new MemorySource();
  source.apply(...([node(), ...objects] as unknown as readonly NamedObject[]));
  return source;
}
