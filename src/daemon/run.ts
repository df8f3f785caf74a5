/** The commands that run or prepare the daemon. The command line loads this module only when needed. */

import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import { version } from "../base/version.ts";
import type { Config } from "../config/config.ts";
import { gateStates } from "../config/feature-gates.ts";
import { measureEventLoopDelay } from "../metrics/event-loop-delay.ts";
import { type PrometheusMetrics, prometheusMetrics } from "../metrics/prometheus-metrics.ts";
import type { ClaimMemory } from "../plan/claims/claim-memory.ts";
import type { HolderRecord } from "../plan/claims/holder-record.ts";
import { cleanUpAndPrint } from "./clean-up.ts";
import { followConfig } from "./follow-config.ts";
import type { ShownConfig } from "./http/metrics-server.ts";
import { startServers } from "./http/servers.ts";
import { watchEstimator } from "./node/estimator.ts";
import { openKernelForCleanUp, openNodeKernel } from "./node/open-node-kernel.ts";
import {
  findOtherProxy,
  findOtherProxyAt,
  OtherProxyError,
  otherProxyGone,
} from "./node/other-proxy.ts";
import { prepareConntrack } from "./node/prepare-conntrack.ts";
import { prepareKernel, requireIpvs } from "./node/prepare-kernel.ts";
import type { ModeView } from "./operator/daemon-view.ts";
import { openOperatorSocket } from "./operator/operator-socket.ts";
import { checkCapabilities } from "./process/capabilities.ts";
import { openClaimMemory } from "./process/claim-record.ts";
import type { ConfigFileSource } from "./process/config-reload.ts";
import { drainStartTimesIn, rampStartTimesIn } from "./process/drain-start-times.ts";
import { FatalEvents } from "./process/fatal-events.ts";
import { acquireInstanceLock, lockForCleanup } from "./process/instance-lock.ts";
import { runUntilSignal, type Stop } from "./process/life-cycle.ts";
import { type ModeRecord, modeRecordIn } from "./process/mode-record.ts";
import { numberRecordIn } from "./process/number-record.ts";
import { writeOomScore } from "./process/oom-score.ts";
import { type OpenSource, openSource } from "./process/open-source.ts";
import { holderRecordIn, ownershipRecordIn } from "./process/ownership-record.ts";
import {
  type BootClock,
  openState,
  type StateFile,
  systemBootClock,
} from "./process/state-file.ts";
import { ApiContact } from "./report/api-contact.ts";
import { ProxyHealth } from "./report/proxy-health.ts";
import { type Daemon, type DaemonContext, startDaemon } from "./start.ts";
import { TrafficMetrics } from "./traffic/traffic-metrics.ts";
import type { RunningUserspace } from "./userspace/begin-userspace.ts";

/** Dependencies of a command. */
export interface RunContext {
  readonly clock: Clock;
  readonly log: Logger;
  /** Prints a line on stdout. */
  readonly print: (line: string) => void;
  /** The configuration and flags that /configz and /flagz show. */
  readonly shown: { readonly object: object; readonly flags: ShownConfig["flags"] };
  readonly setVerbosity: (level: number) => void;
  /**
   * Protects the process's memory from core dumps and other users' debuggers. Throws if the kernel rejects the request.
   */
  readonly forbidCoreDumps: () => void;
  /** Allows `--cleanup` while a daemon is running. */
  readonly isCleanupForced: boolean;
  /** The configuration file. Undefined if the configuration did not come from a file. */
  readonly configFile?: ConfigFileSource;
}

type DaemonRunContext = RunContext & {
  readonly fail: (error: Error) => void;
  /** Aborts the startup. */
  readonly signal: AbortSignal;
};

/** Runs until a signal arrives. Rejects if startup cannot continue. */
export async function runDaemon(config: Config, parts: RunContext): Promise<void> {
  parts.log.info(`Using ${config.mode} Proxier`, { version, node: config.nodeName });
  const { stopDelayMs } = config;
  await runUntilSignal({ ...parts, stopDelayMs }, (signal, fail) =>
    start(config, { ...parts, fail, signal }),
  );
}

/**
 * Implements `--init-only`: does everything that needs more privileges than the daemon has. Does not contact the API
 * server and writes no rules.
 */
export async function prepareNode(config: Config, parts: RunContext): Promise<void> {
  const { log } = parts;
  if (config.observeOnly) return log.warn("Skipping node preparation in observe-only mode");
  checkCapabilities();
  const kernel = await openNodeKernel(config, parts);
  try {
    const families = await prepareKernel(kernel, config, log);
    await prepareConntrack(kernel, config, log);
    log.info("Node prepared", { ipFamilies: families });
  } finally {
    kernel.close();
  }
}

/** Implements `--cleanup`. Resolves with false if something of ours could not be removed. */
export async function cleanUpNode(config: Config, parts: RunContext): Promise<boolean> {
  checkCapabilities();
  const lock = parts.isCleanupForced ? undefined : await lockForCleanup(config.lockName);
  try {
    const kernel = await openKernelForCleanUp(config, parts);
    try {
      const proxy = await findOtherProxy();
      return await cleanUpAndPrint(kernel, config, parts.print, { proxy });
    } finally {
      kernel.close();
    }
  } finally {
    await lock?.release();
  }
}

/**
 * Starts all parts in dependency order, and returns a function that stops them. If a part fails or the startup is
 * aborted, stops the parts that were started.
 */
async function start(config: Config, parts: DaemonRunContext): Promise<Stop> {
  const { signal } = parts;
  const stops: Stop[] = [];
  const fatal = new FatalEvents(config.nodeName);
  const fail = (error: Error): void => {
    fatal.record(error);
    parts.fail(error);
  };
  const stopAll: Stop = async () => {
    for (const stop of stops.toReversed()) await stop();
  };
  try {
    const begin = config.mode === "userspace" ? beginUserspaceMode : beginKernelMode;
    for await (const stop of begin(config, { ...parts, fail, fatal })) {
      stops.push(stop);
      if (signal.aborted) break;
    }
    return stopAll;
  } catch (error) {
    if (!signal.aborted) fatal.record(error);
    await stopAll();
    throw error;
  }
}

/** Starts the parts of the program one by one. For each part, yields a function that stops it. */
async function* beginKernelMode(
  config: Config,
  parts: DaemonRunContext & { readonly fatal: FatalEvents },
): AsyncGenerator<Stop> {
  const { clock, log, fail } = parts;
  checkCapabilities();
  const common = yield* beginCommon(config, parts);
  const { metrics, source, events, health, state, bootClock, claimMemory } = common;
  const kernel = await openNodeKernel(config, parts);
  yield () => kernel.close();
  const shown = { object: parts.shown.object };
  const started = Promise.withResolvers<Daemon>();
  yield* followConfig(started.promise, { ...parts, health, current: shown, kernel });
  if (!config.observeOnly) {
    if (config.mode === "ipvs") await requireIpvs(kernel, log);
    await prepareConntrack(kernel, config, log);
  }

  let view: ModeView | undefined;
  const { sysctl } = kernel;
  if (config.trafficMetrics !== "none") {
    const traffic = new TrafficMetrics(
      { clock, log, sysctl, view: () => (view?.mode === "ipvs" ? view : undefined) },
      config,
    );
    metrics.addTextSource(() => traffic.exposition());
  }
  yield* beginAnswers(config, {
    ...parts,
    ...common,
    object: () => shown.object,
    view: () => view,
  });
  const clocks = { clock, bootClock };
  const daemon = await startDaemon({
    ...{ config, kernel, source, metrics, health, clock, log, events, fail },
    ...withTaint(common),
    drainStartTimes: drainStartTimesIn(state, clocks),
    rampStartTimes: rampStartTimesIn(state, clocks),
    weightRecord: numberRecordIn(state, "answeredWeights"),
    ejectionRecord: numberRecordIn(state, "ejections"),
    ownershipRecord: ownershipRecordIn(state),
    holderRecord: common.holderRecord,
    claimMemory,
    ...(config.observeOnly ? {} : { modeRecord: common.modeRecord }),
    processorMs: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1_000;
    },
  });
  started.resolve(daemon);
  view = daemon.view;
  yield () => daemon.stop();
  // Only IPVS has an estimator.
  if (daemon.view.mode === "ipvs") yield watchEstimator({ clock, log, sysctl, view: daemon.view });
}

/** Passes Nodes and successful syncs to the code that removes the taint. */
function withTaint({
  notReadyTaint,
}: Pick<OpenSource, "notReadyTaint">): Pick<DaemonContext, "notReadyTaint" | "onReport"> {
  if (notReadyTaint === undefined) return {};
  return {
    notReadyTaint,
    onReport: ({ failures }) => {
      if (failures.length === 0) notReadyTaint.noteReady();
    },
  };
}

type CommonContext = Omit<OpenSource, "close"> & {
  readonly metrics: PrometheusMetrics;
  readonly apiContact: ApiContact;
  readonly health: ProxyHealth;
  readonly bootClock: BootClock;
  readonly state: StateFile;
  readonly modeRecord: ModeRecord;
  readonly holderRecord: HolderRecord;
  readonly claimMemory: ClaimMemory;
};

/** Starts the parts that all modes share. Changes neither rules nor IPVS. */
async function* beginCommon(
  config: Config,
  parts: DaemonRunContext & { readonly fatal: FatalEvents },
): AsyncGenerator<Stop, CommonContext> {
  const { clock, log } = parts;
  keepMemoryPrivate(parts);
  const lock = await acquireInstanceLock(config.lockName, { log });
  yield () => lock.release();
  // Observe-only mode does not conflict with kube-proxy. It serves as a dry run before kube-proxy is replaced.
  if (!config.ignoreRunningKubeProxy && !config.observeOnly) await refuseOtherProxy(config, parts);
  await writeOomScore(config.oomScoreAdj, parts);
  const metrics = prometheusMetrics({
    version,
    featureGates: gateStates(config.featureGates),
  });
  yield measureEventLoopDelay(clock, metrics);
  // The source is opened before any write, so a failure leaves the node unchanged.
  const apiContact = new ApiContact(clock, metrics);
  const { close, ...opened } = await openSource(config, { clock, log, observer: apiContact });
  yield close;
  parts.fatal.recordWith(opened.events);
  const health = new ProxyHealth(clock, 2 * config.syncPeriodMs);
  if (config.stopDelayMs > 0) health.requireFirstSync();
  // In a cluster, the Node object determines whether the node is eligible. Without a cluster, the node is always
  // eligible.
  health.setNodeEligible(config.objectsFrom.kind === "manifests");
  parts.signal.addEventListener("abort", () => health.stopping(), { once: true });
  const bootClock = systemBootClock();
  const { observeOnly: isReadOnly } = config;
  const state = openState(config.stateFile, { log, bootClock, isReadOnly });
  yield () => state.idle();
  const { claimMemory, idle } = openClaimMemory(config, { clock, log });
  yield idle;
  return {
    ...{ ...opened, metrics, apiContact, health, bootClock, state, claimMemory },
    modeRecord: modeRecordIn(state, config),
    holderRecord: holderRecordIn(state),
  };
}

/** Starts the HTTP servers and the operator socket. */
async function* beginAnswers(
  config: Config,
  parts: RunContext &
    CommonContext & { readonly object: () => object; readonly view: () => ModeView | undefined },
): AsyncGenerator<Stop> {
  const { clock, health, apiContact, notReadyTaint, source, object, view } = parts;
  const startedAtMs = clock.monotonicMs();
  yield await startServers({ ...parts, shown: { flags: parts.shown.flags, object } }, config);
  yield await openOperatorSocket(config.operatorSocket, {
    ...parts,
    configuration: object,
    status: () => ({
      ...{ clock, config, health, apiContact, notReadyTaint, source, startedAtMs },
      view: view(),
    }),
  });
}

/**
 * Like {@link beginKernelMode}, but kernel privileges are optional. Features that need missing privileges are skipped.
 */
async function* beginUserspaceMode(
  config: Config,
  parts: DaemonRunContext & { readonly fatal: FatalEvents },
): AsyncGenerator<Stop> {
  const common = yield* beginCommon(config, parts);
  const { beginUserspace } = await import("./userspace/begin-userspace.ts");
  const shown = { object: parts.shown.object };
  const started = Promise.withResolvers<RunningUserspace>();
  yield* followConfig(started.promise, { ...parts, health: common.health, current: shown });
  let view: ModeView | undefined;
  yield* beginAnswers(config, {
    ...parts,
    ...common,
    object: () => shown.object,
    view: () => view,
  });
  const running = await beginUserspace(config, { ...parts, ...common, ...withTaint(common) });
  started.resolve(running);
  view = running.view;
  yield running.stop;
}

/** Disables core dumps. Call this before reading credentials. If it fails, logs a warning and continues. */
function keepMemoryPrivate({ forbidCoreDumps, log }: RunContext): void {
  try {
    forbidCoreDumps();
  } catch (error) {
    log.warn("Cannot disable core dumps, which may contain credentials", { err: error });
  }
}

async function refuseOtherProxy(config: Config, parts: DaemonRunContext): Promise<void> {
  const find = (): ReturnType<typeof findOtherProxy> => findOtherProxyAt(config.metricsBindAddress);
  if (config.waitForKubeProxy) return await otherProxyGone(parts, parts.signal, find);
  const proxy = await find();
  if (proxy !== undefined) throw new OtherProxyError(proxy);
}
