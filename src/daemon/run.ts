/** The working part of the program: what the command line calls. Loaded only when it is needed. */

import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { SpareMemory } from "../base/spare-memory.ts";
import { kubernetesVersion, version } from "../base/version.ts";
import type { Config } from "../config/config.ts";
import { configObject } from "../config/config-text.ts";
import { gateStates } from "../config/feature-gates.ts";
import type { Kernel } from "../kernel/kernel.ts";
import { openKernel } from "../kernel/open-kernel.ts";
import { measureEventLoopDelay } from "../metrics/event-loop-delay.ts";
import { PrometheusMetrics } from "../metrics/prometheus-metrics.ts";
import { checkCapabilities } from "./capabilities.ts";
import { cleanUp } from "./clean-up.ts";
import {
  type ConfigFileSource,
  type ConfigReloadParts,
  followConfigFile,
} from "./config-reload.ts";
import { DrainAgesFile, systemBootClock } from "./drain-ages.ts";
import { acquireInstanceLock } from "./instance-lock.ts";
import { runUntilSignal, type Stop } from "./life-cycle.ts";
import type { ShownConfig } from "./metrics-server.ts";
import { writeOomScore } from "./oom-score.ts";
import { openSource } from "./open-source.ts";
import { findOtherProxy, OtherProxyError } from "./other-proxy.ts";
import { prepareConntrack } from "./prepare-conntrack.ts";
import { prepareKernel } from "./prepare-kernel.ts";
import { ProxyHealth } from "./proxy-health.ts";
import { startServers } from "./servers.ts";
import { type Daemon, startDaemon } from "./start.ts";

/** What a command works with. */
export interface CommandParts {
  readonly clock: Clock;
  readonly log: Logger;
  /** Prints a line on stdout. */
  readonly print: (line: string) => void;
  /** What /configz and /flagz show. */
  readonly shown: { readonly object: object; readonly flags: ShownConfig["flags"] };
  readonly setVerbosity: (level: number) => void;
  /** Gives back memory that was needed until now. */
  readonly spareMemory: SpareMemory;
  /** Keeps the process's memory out of core dumps and other users' debuggers. Throws where the kernel refuses. */
  readonly forbidCoreDumps: () => void;
  /** The file that the configuration came from; absent: none. */
  readonly configFile?: ConfigFileSource;
}

type DaemonRunParts = CommandParts & { readonly fail: (error: Error) => void };

/** Runs until a signal; rejects where the start makes no sense. */
export async function runDaemon(config: Config, parts: CommandParts): Promise<void> {
  parts.log.info("Using ipvs Proxier", { version, node: config.nodeName });
  await runUntilSignal(parts, (signal, fail) => start(config, { ...parts, fail }, signal));
}

/** `--init-only`: everything that needs more rights than the daemon; no API server, no rule. */
export async function prepareNode(config: Config, parts: CommandParts): Promise<void> {
  const { log } = parts;
  if (config.isObserveOnly) return log.warn("Nothing is prepared while only observing");
  checkCapabilities();
  const kernel = await openKernel({ ...parts, environment: process.env });
  try {
    await prepareConntrack(kernel, config, log);
    const families = await prepareKernel(kernel, config, log);
    log.info("The node is prepared", { ipFamilies: families });
  } finally {
    kernel.close();
  }
}

/** `--cleanup`; false where something of ours was left. */
export async function cleanUpNode(config: Config, parts: CommandParts): Promise<boolean> {
  checkCapabilities();
  const kernel = await openKernel({ ...parts, environment: process.env });
  try {
    return await cleanUp(kernel, config, parts.print);
  } finally {
    kernel.close();
  }
}

/**
 * Starts everything in the order in which things depend on each other, and gives the stop. What was begun
 * is ended again when a later part fails, or when the start is cut short.
 */
async function start(config: Config, parts: DaemonRunParts, signal: AbortSignal): Promise<Stop> {
  const stops: Stop[] = [];
  const stopAll: Stop = async () => {
    for (const stop of stops.toReversed()) await stop();
  };
  try {
    for await (const stop of beginParts(config, parts)) {
      stops.push(stop);
      if (signal.aborted) break;
    }
    return stopAll;
  } catch (error) {
    await stopAll();
    throw error;
  }
}

/** Each part of the program as it begins: yields how it ends. */
async function* beginParts(config: Config, parts: DaemonRunParts): AsyncGenerator<Stop> {
  const { clock, log, fail, spareMemory } = parts;
  checkCapabilities();
  keepMemoryPrivate(parts);
  const lock = await acquireInstanceLock(config.lockName);
  yield () => lock.release();
  // Only to observe is no conflict: it is how a change of proxies is rehearsed.
  if (!config.isOtherProxyAllowed && !config.isObserveOnly) await refuseOtherProxy();
  await writeOomScore(config.oomScoreAdj, parts);

  const metrics = new PrometheusMetrics(clock, {
    version,
    kubernetesVersion,
    featureGates: gateStates(config.featureGates),
  });
  const stopMeasuring = measureEventLoopDelay(clock, metrics);
  yield async () => stopMeasuring();

  // Before anything is written: without objects the node stays as it is.
  const { source, events, close } = await openSource(config, { clock, log, observer: metrics });
  yield close;

  const kernel = await openKernel({ ...parts, environment: process.env });
  yield async () => kernel.close();
  const health = new ProxyHealth(clock, 2 * config.syncPeriodMs);
  // A cluster's node is eligible when its Node object says so; without a cluster nobody says otherwise.
  health.setNodeEligible(config.objectsFrom.kind === "manifests");
  let object = parts.shown.object;
  const started = Promise.withResolvers<Daemon>();
  yield followConfig(parts, async (next, values) => {
    const daemon = await started.promise;
    await daemon.reconfigure(next);
    if (!next.isObserveOnly) await limitConntrack(kernel, next, log);
    await writeOomScore(next.oomScoreAdj, parts);
    parts.setVerbosity(next.logging.verbosity);
    health.setTimeoutMs(2 * next.syncPeriodMs);
    object = configObject(values, next);
  });
  if (!config.isObserveOnly) await prepareConntrack(kernel, config, log);

  const shown = { flags: parts.shown.flags, object: () => object };
  yield await startServers({ ...parts, shown, metrics, health, events }, config);

  const drainAges = new DrainAgesFile(config.drainAgesPath, {
    clock,
    log,
    bootClock: systemBootClock(),
  });
  yield () => drainAges.idle();

  const daemon = await startDaemon({
    config,
    kernel,
    source,
    metrics,
    health,
    clock,
    log,
    events,
    drainAges,
    spareMemory,
    fail,
  });
  started.resolve(daemon);
  yield () => daemon.stop();
}

/** Before credentials are read. Where it cannot be, the proxy's work is worth more. */
function keepMemoryPrivate({ forbidCoreDumps, log }: CommandParts): void {
  try {
    forbidCoreDumps();
  } catch (error) {
    log.warn("Core dumps of this process may hold its credentials", { err: error });
  }
}

/** The daemon runs: what cannot be set is told, and the rest of the configuration counts. */
async function limitConntrack(kernel: Kernel, config: Config, log: Logger): Promise<void> {
  try {
    await prepareConntrack(kernel, config, log);
  } catch (error) {
    log.error("Cannot set connection tracking limits", { err: error });
  }
}

function followConfig(parts: DaemonRunParts, apply: ConfigReloadParts["apply"]): Stop {
  if (parts.configFile === undefined) return async () => {};
  const stop = followConfigFile(parts.configFile, { ...parts, apply });
  return async () => stop();
}

async function refuseOtherProxy(): Promise<void> {
  const proxy = await findOtherProxy();
  if (proxy !== undefined) throw new OtherProxyError(proxy);
}
