/**
 * Runs `--proxy-mode=userspace`: this process listens and forwards. Apart from sockets, it uses only iptables, if
 * available.
 */
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import { type IpFamily, ipFamilies, isWildcard } from "../../base/ip.ts";
import type { Logger } from "../../base/log.ts";
import { none } from "../../base/none.ts";
import type { Config } from "../../config/config.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { SoughtListener } from "../../userspace/find-listeners.ts";
import { listenAddressOf } from "../../userspace/listen-addresses.ts";
import { UserspaceProxier } from "../../userspace/proxier.ts";
import { listenerKey } from "../../userspace/service-listeners.ts";
import { socketQuotas } from "../../userspace/service-quota.ts";
import { leftoverRemoval, noEarlierRuns } from "../leftovers/remove-leftovers.ts";
import { type RunModeContext, type RunOfMode, runMode } from "../modes/run-mode.ts";
import type { ListenersView, ServedAddress } from "../operator/daemon-view.ts";
import { connectionLimitEvent } from "../report/events.ts";
import { LoopReporter } from "../report/loop-reporter.ts";
import type { SyncHistory } from "../report/sync-history.ts";
import type { DaemonContext } from "../start.ts";
import { ObservedListeners } from "./observed-listeners.ts";
import { openFileLimit } from "./open-file-limit.ts";
import {
  openUserspaceKernel,
  readNodeAddresses,
  socketlessNetwork,
  type UserspaceKernel,
} from "./open-userspace-kernel.ts";
import { type Listeners, UserspaceLoop } from "./userspace-loop.ts";

export interface UserspaceContext
  extends Omit<RunModeContext, "config">,
    Pick<DaemonContext, "holderRecord" | "claimMemory"> {
  /** Defaults to this machine's kernel. */
  readonly openKernel?: typeof openUserspaceKernel;
  /** Defaults to this machine's sockets. */
  readonly listeners?: Listeners;
}

/** The running userspace mode. */
export interface RunningUserspace
  extends Pick<RunOfMode<unknown>, "settled" | "reconfigure" | "stop"> {
  readonly view: ListenersView;
  /** In observe-only mode, the listeners that startup would open. Empty before the first sync. */
  readonly toOpen: () => readonly SoughtListener[];
}

/** Starts the loop, which opens listeners and writes rules, and the source. */
export async function beginUserspace(
  config: Config,
  parts: UserspaceContext,
): Promise<RunningUserspace> {
  const { clock, log } = parts;
  const { observeOnly } = config;
  const usable = await findKernel(config, log, parts.openKernel);
  const { families = ipFamilies, iptables, whole } = usable ?? {};
  const observed = observeOnly
    ? new ObservedListeners({ config, iptables, won: (wanted) => loop.won(wanted) })
    : undefined;
  const proxier = observed ?? parts.listeners ?? openProxier(config, parts, usable);
  const reporter = new LoopReporter({ ...parts, nodeName: config.nodeName });
  const runs = parts.modeRecord ?? noEarlierRuns;
  const removal = whole && {
    removeLeftovers: leftoverRemoval(whole, config, { clock, log, runs }),
  };
  const { mode, settled, reconfigure, stop } = await runMode(
    { ...parts, config },
    async (shared) => {
      const own = { proxier, families, reporter, tables: usable };
      const kernel = usable ?? socketlessNetwork;
      const loop = new UserspaceLoop({ ...parts, ...shared, ...own, kernel }, shared.live);
      return { loop, families, iptables, view: reporter, ...removal };
    },
  );
  const { loop } = mode;
  return {
    ...{ settled, reconfigure, toOpen: () => observed?.toOpen() ?? none },
    view: viewOf({ loop, proxier, usable, history: reporter.history }, config, clock, families),
    stop: async () => {
      await stop();
      usable?.close();
    },
  };
}

/**
 * Opens iptables. If it cannot be used, logs the reason and resolves to undefined; there are then only listeners and no
 * rules.
 */
async function findKernel(
  config: Config,
  log: Logger,
  open: typeof openUserspaceKernel = openUserspaceKernel,
): Promise<UserspaceKernel | undefined> {
  const { bindAddress, observeOnly } = config;
  try {
    return await open(config, log);
  } catch (error) {
    const doing = observeOnly ? "planning listeners" : "listening";
    const event = `Cannot use iptables; ${doing} only at node ports and service ports`;
    log.warn(event, { bindAddress, err: errorText(error) });
    return undefined;
  }
}

function openProxier(
  config: Config,
  { clock, log, metrics, events }: Pick<UserspaceContext, "clock" | "log" | "metrics" | "events">,
  usable: UserspaceKernel | undefined,
): UserspaceProxier {
  const { bindAddress, udpTimeoutMs, drain, nodeName } = config;
  const rule = { bindAddress, isRedirected: usable !== undefined };
  return new UserspaceProxier({
    ...{ clock, log, udpTimeoutMs },
    drainMs: drain.tcpDeadlineSeconds * 1_000,
    quotas: socketQuotas(openFileLimit(), {
      total: config.userspaceMaxConnections,
      perService: config.userspaceMaxServiceConnections,
    }),
    addressOf: (wanted) => listenAddressOf(wanted, rule),
    onRefused: (service, count) => {
      metrics.refusedConnections.inc(count);
      events.record(connectionLimitEvent(nodeName, service));
    },
  });
}

interface Viewed {
  readonly loop: UserspaceLoop;
  readonly proxier: Listeners;
  readonly usable: UserspaceKernel | undefined;
  readonly history: SyncHistory;
}

function viewOf(
  { loop, proxier, usable, history }: Viewed,
  config: Config,
  clock: Clock,
  families: readonly IpFamily[],
): ListenersView {
  return {
    mode: "userspace",
    ...{ config, clock, families, history },
    ...(usable === undefined ? {} : { iptables: usable.iptables }),
    scheduler: "rr",
    objects: loop.objects,
    get place() {
      return loop.place;
    },
    choose: ({ cluster, local }) => (cluster.length > 0 ? cluster : local),
    open: () => loop.open(),
    nodeAddresses: readNodeAddresses,
    frontends: (port) =>
      usable === undefined
        ? [ownAddress(port, config)]
        : [...loop.frontends(port), ...nodePortsOf(port)],
    lostTo: (port, key) => loop.claims.lostTo(port, key),
    absentReason: (port, family) => {
      if (port.protocol === "SCTP") return "protocol-not-supported";
      if (proxier.isOpen(listenerKey(port, family))) return undefined;
      return config.observeOnly ? "pending" : "cannot-listen";
    },
  };
}

/**
 * The address and port of a service port's listener, to which clients connect directly if there are no rules. Pure.
 */
function ownAddress(
  port: ServicePort,
  { bindAddress }: Pick<Config, "bindAddress">,
): ServedAddress {
  const [own = { kind: "cluster-ip", port: port.port } as const] = nodePortsOf(port);
  return isWildcard(bindAddress) ? own : { ...own, address: bindAddress };
}

function nodePortsOf({ nodePort }: ServicePort): readonly ServedAddress[] {
  return nodePort === 0 ? [] : [{ kind: "node-port", port: nodePort }];
}
