/** What the composition root needs of a proxy mode. */
import type { EventRecorder } from "../../api/event.ts";
import type { NodeRecord } from "../../api/objects.ts";
import type { ServedAddresses, ServerEndpoint } from "../../api/source.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import type { ServiceHealthServers } from "../http/service-health.ts";
import type { ModeView } from "../operator/daemon-view.ts";
import type { LiveConfig } from "../process/live-config.ts";
import type { DaemonParts } from "../start.ts";
import type { ClusterInput } from "../sync/cluster-input.ts";

/** Takes what the source reports and brings the kernel there. */
export interface ProxyLoop {
  readonly input: ClusterInput;
  start(): void;
  /** Resolves when everything reported so far is in the kernel. */
  settled(): Promise<void>;
  stop(): Promise<void>;
  reconfigured(): void;
}

/** A mode whose kernel is prepared. */
export interface RunningMode {
  readonly families: readonly IpFamily[];
  readonly loop: ProxyLoop;
  readonly view: ModeView;
  /** What the kernel serves at the start; undefined where no list is guarded by it. */
  readonly servedBefore: ServedAddresses | undefined;
  /** What a configuration asks of the kernel, whatever Services there are. Rejects before the first write. */
  configure(next: Config): Promise<void>;
  /**
   * Removes what other modes and earlier runs left. Called when the first sync ended, and again each minute while it resolves
   * with false because something could not be removed. `stop`: the program ends.
   */
  removeLeftovers(stop: AbortSignal): Promise<boolean>;
}

/** What a mode is made of. */
export interface ModeContext extends DaemonParts {
  readonly events: EventRecorder;
  readonly live: LiveConfig;
  readonly healthChecks: ServiceHealthServers;
  readonly apiServers: () => readonly ServerEndpoint[];
  /** Called once, before the first plan. */
  readonly onNodeReady: (node: NodeRecord | undefined, families: readonly IpFamily[]) => void;
}
