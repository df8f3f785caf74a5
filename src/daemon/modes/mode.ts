/** The interface between `start.ts` and a proxy mode. */
import type { EventRecorder } from "../../api/event.ts";
import type { NodeRecord } from "../../api/objects.ts";
import type { ServedAddresses, ServerEndpoint } from "../../api/source.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import type { Iptables } from "../../kernel/kernel.ts";
import type { ServiceHealthServers } from "../http/service-health.ts";
import type { ModeView } from "../operator/daemon-view.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { DaemonContext } from "../start.ts";
import type { ClusterInput } from "../sync/cluster-input.ts";

/** Receives objects from the source and syncs them to the kernel. */
export interface ProxyLoop {
  readonly input: ClusterInput;
  start(): void;
  /** Resolves when all objects that the source has reported so far have been written to the kernel. */
  settled(): Promise<void>;
  stop(): Promise<void>;
  reconfigured(): void;
}

/** A mode that has prepared the kernel. */
export interface RunningMode {
  /** Undefined if the mode writes no rules. */
  readonly iptables: Iptables | undefined;
  readonly families: readonly IpFamily[];
  readonly loop: ProxyLoop;
  readonly view: ModeView;
  /** Addresses that the kernel serves at startup, for the relist guard. Undefined if the guard is off. */
  readonly servedBefore: ServedAddresses | undefined;
  /**
   * Applies a configuration's kernel settings that do not depend on Services. If the kernel does not support them,
   * rejects before the first write.
   */
  configure(next: Config): Promise<void>;
  /**
   * Removes leftovers of other modes and earlier runs. Called after the first sync whose rules the kernel accepts, and
   * again each minute as long as it resolves with false because something could not be removed. `stop` aborts when the
   * program stops.
   */
  removeLeftovers(stop: AbortSignal): Promise<boolean>;
}

export interface ModeContext extends DaemonContext {
  readonly events: EventRecorder;
  readonly live: LiveConfig;
  readonly healthChecks: ServiceHealthServers;
  readonly apiServers: () => readonly ServerEndpoint[];
  /** Called once, before the first plan. */
  readonly onNodeReady: (node: NodeRecord | undefined, families: readonly IpFamily[]) => void;
}
