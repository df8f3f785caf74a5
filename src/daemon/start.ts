import { type EventRecorder, silentEvents } from "../api/event.ts";
import type { ObjectSource } from "../api/source.ts";
import type { IpFamily } from "../base/ip.ts";
import type { Config } from "../config/config.ts";
import { observeOnly } from "../kernel/observe-only.ts";
import type { Metrics } from "../metrics/prometheus-metrics.ts";
import { type MakeListener, ServiceHealthServers } from "./http/service-health.ts";
import { beginIptables } from "./modes/iptables-mode.ts";
import { beginIpvs } from "./modes/ipvs-mode.ts";
import { runMode } from "./modes/run-mode.ts";
import { checkFamilies, type FamilyFacts, primaryFamily } from "./node/family-check.ts";
import { StartError } from "./node/prepare-kernel.ts";
import type { ModeView } from "./operator/daemon-view.ts";
import type { ModeRecord } from "./process/mode-record.ts";
import { healthPortFailedEvent } from "./report/events.ts";
import type { ProxyHealth } from "./report/proxy-health.ts";
import type { SourceListenerContext } from "./sync/source-listener.ts";
import type { SyncLoopContext } from "./sync/sync-loop.ts";

/** Dependencies of the daemon. Tests supply their own kernel and source. */
export interface DaemonContext
  extends Omit<
      SyncLoopContext,
      "source" | "apiServers" | "reporter" | "healthChecks" | "localhostNodePorts" | "onNodeReady"
    >,
    Pick<SourceListenerContext, "notReadyTaint"> {
  readonly config: Config;
  readonly source: ObjectSource;
  readonly metrics: Metrics;
  readonly health: ProxyHealth;
  /** Records which modes have run on this node. Undefined if this is not recorded. */
  readonly modeRecord?: ModeRecord;
  /** If undefined, Events are discarded. */
  readonly events?: EventRecorder;
  /** If undefined, health-check node ports listen on real sockets. */
  readonly makeListener?: MakeListener;
}

/**
 * The running daemon: source, planning and kernel. Does not include HTTP servers, signal handling or the instance lock.
 */
export interface Daemon {
  readonly families: readonly IpFamily[];
  /** Read-only access to the daemon's state. */
  readonly view: ModeView;
  /** Resolves when all objects that the source has reported so far have been written to the kernel. */
  settled(): Promise<void>;
  /** Applies a new configuration. Rejects without changing anything if the kernel does not support it. */
  reconfigure(config: Config): Promise<void>;
  /** Stops the source and the loop. Leaves all kernel state in place. */
  stop(): Promise<void>;
}

/** Prepares the kernel, then starts the loop and the source. Rejects if startup cannot continue. */
export async function startDaemon(parts: DaemonContext): Promise<Daemon> {
  const { config, events = silentEvents } = parts;
  const kernel = config.observeOnly ? observeOnly(parts.kernel) : parts.kernel;
  const healthChecks = new ServiceHealthServers({
    ...parts,
    held: parts.holderRecord?.held ?? new Map(),
    onFailure: ({ service, port }, reason) =>
      events.record(healthPortFailedEvent(config.nodeName, service, { port }, reason)),
  });
  const begin = config.mode === "iptables" ? beginIptables : beginIpvs;
  const { mode, settled, reconfigure, stop } = await runMode({ ...parts, events }, (shared) =>
    begin({
      ...{ ...parts, ...shared, events, kernel, healthChecks },
      onNodeReady: (node, families) =>
        reportFamilies({ config: shared.live.current, families, node }, parts),
    }),
  );
  return { families: mode.families, view: mode.view, settled, reconfigure, stop };
}

/** Logs the IP families and each mismatch. Ends the program if a mismatch is fatal. */
function reportFamilies(
  facts: FamilyFacts,
  { log, fail = () => {} }: Pick<DaemonContext, "log" | "fail">,
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
