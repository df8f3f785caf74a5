import { type EventRecorder, silentEvents } from "../api/event.ts";
import type { ObjectSource, SourceListener } from "../api/source.ts";
import type { IpFamily } from "../base/ip.ts";
import type { Config } from "../config/config.ts";
import { observeOnly } from "../kernel/observe-only.ts";
import { type Metrics, showServerVersion } from "../metrics/prometheus-metrics.ts";
import { type MakeListener, ServiceHealthServers } from "./http/service-health.ts";
import { onceSynced } from "./leftovers/once-synced.ts";
import { beginIptables } from "./modes/iptables-mode.ts";
import { beginIpvs } from "./modes/ipvs-mode.ts";
import type { RunningMode } from "./modes/mode.ts";
import { BackendWatch } from "./node/backend-watch.ts";
import { checkFamilies, type FamilyFacts, primaryFamily } from "./node/family-check.ts";
import { rememberServers } from "./node/node-network.ts";
import { StartError } from "./node/prepare-kernel.ts";
import type { ModeView } from "./operator/daemon-view.ts";
import type { ModeRecord } from "./process/mode-record.ts";
import { healthPortFailedEvent, startingEvent } from "./report/events.ts";
import type { ProxyHealth } from "./report/proxy-health.ts";
import { sourceListener } from "./sync/source-listener.ts";
import type { SyncLoopContext } from "./sync/sync-loop.ts";

/** What the working part of the daemon is made of; tests bring their own kernel and source. */
export interface DaemonParts
  extends Omit<
    SyncLoopContext,
    "source" | "apiServers" | "reporter" | "healthChecks" | "localhostNodePorts" | "onNodeReady"
  > {
  readonly config: Config;
  readonly source: ObjectSource;
  readonly metrics: Metrics;
  readonly health: ProxyHealth;
  /** Undefined if earlier modes are unknown. */
  readonly modeRecord?: ModeRecord;
  /** If undefined, Events are discarded. */
  readonly events?: EventRecorder;
  /** If undefined, health-check node ports listen on real sockets. */
  readonly makeListener?: MakeListener;
}

/** The working part: source, plan, kernel. No listener, no signal, no lock. */
export interface Daemon {
  readonly families: readonly IpFamily[];
  /** Its state, for whoever only reads. */
  readonly view: ModeView;
  /** Resolves when everything the source reported so far is in the kernel. */
  settled(): Promise<void>;
  /** From now on another configuration counts. Rejects, and changes nothing, where the kernel cannot do it. */
  reconfigure(config: Config): Promise<void>;
  /** Ends source and loop; the kernel keeps its state. */
  stop(): Promise<void>;
}

/** Prepares the kernel, then starts source and loop. Throws where a start makes no sense. */
export async function startDaemon(parts: DaemonParts): Promise<Daemon> {
  const { config, source, metrics, events = silentEvents, modeRecord } = parts;
  const kernel = config.isObserveOnly ? observeOnly(parts.kernel) : parts.kernel;
  const live = { current: config };
  const healthChecks = new ServiceHealthServers({
    ...parts,
    held: parts.holderRecord?.held ?? new Map(),
    onFailure: ({ service, port }, reason) =>
      events.record(healthPortFailedEvent(config.nodeName, service, { port }, reason)),
  });
  const begin = config.mode === "iptables" ? beginIptables : beginIpvs;
  const mode: RunningMode = await begin({
    ...parts,
    events,
    onReport: (report) => {
      parts.onReport?.(report);
      if (report.failures.length === 0) removeLeftovers();
    },
    kernel,
    live,
    healthChecks,
    apiServers: rememberServers(() => source.servers?.() ?? []),
    onNodeReady: (node, families) =>
      reportFamilies({ config: live.current, families, node }, parts),
  });
  const { loop } = mode;
  const { input } = loop;
  const stopped = new AbortController();
  modeRecord?.begin(config.mode);
  const removeLeftovers = onceSynced({ ...parts, stop: stopped.signal }, async () => {
    await loop.settled();
    const isGone = await mode.removeLeftovers(stopped.signal);
    if (isGone && !stopped.signal.aborted) modeRecord?.tidied(config.mode);
    return isGone;
  });
  const backendWatch = new BackendWatch(kernel.iptables, parts, config.verificationPeriodMs);
  loop.start();
  backendWatch.start();
  const listener: SourceListener = {
    ...sourceListener(input, parts),
    onNodes: (nodes) => input.noteNodes(nodes),
    onServerVersion: (version) => showServerVersion(version, metrics),
  };
  for (const family of mode.families) kernel.iptables.readAhead(family);
  await source.start(listener, mode.servedBefore);
  events.record(startingEvent(config.nodeName));
  return {
    families: mode.families,
    view: mode.view,
    settled: () => loop.settled(),
    reconfigure: async (next) => {
      await mode.configure(next);
      live.current = next;
      loop.reconfigured();
    },
    stop: async () => {
      stopped.abort();
      backendWatch.stop();
      await source.stop();
      await loop.stop();
    },
  };
}

/** One line about the families, and one for each thing that does not fit; the first fatal one ends the program. */
function reportFamilies(
  facts: FamilyFacts,
  { log, fail = () => {} }: Pick<DaemonParts, "log" | "fail">,
): void {
  const { families } = facts;
  const event = families.length > 1 ? "Proxying dual-stack" : "Proxying single-stack";
  log.info(event, { ipFamilies: families, primary: primaryFamily(facts) });
  const findings = checkFamilies(facts);
  for (const { reason, isFatal } of findings) {
    if (!isFatal) log.warn("Kube-proxy configuration may be incomplete or incorrect", { reason });
  }
  const fatal = findings.find(({ isFatal }) => isFatal);
  if (fatal !== undefined) fail(new StartError(`Cannot start: ${fatal.reason}`));
}
