import { hasAllRules } from "../../reconcile/report.ts";
import { onceSynced } from "../leftovers/once-synced.ts";
import { mayBeInUse } from "../leftovers/remove-leftovers.ts";
import { BackendWatch } from "../node/backend-watch.ts";
import { rememberServers } from "../node/node-network.ts";
import { startingEvent } from "../report/events.ts";
import type { Daemon, DaemonContext } from "../start.ts";
import { sourceListener } from "../sync/source-listener.ts";
import type { ModeContext, RunningMode } from "./mode.ts";

export type RunModeContext = Pick<ModeContext, "events"> &
  Pick<DaemonContext, "config" | "clock" | "log" | "health" | "metrics" | "source" | "fail"> &
  Pick<DaemonContext, "modeRecord" | "notReadyTaint" | "onReport">;

/** The parts that each mode provides. */
export type BegunMode = Pick<RunningMode, "iptables" | "families" | "loop"> &
  Partial<Pick<RunningMode, "servedBefore" | "removeLeftovers" | "configure">> & {
    readonly view: Pick<RunningMode["view"], "history">;
  };

export interface RunOfMode<M> extends Pick<Daemon, "settled" | "reconfigure" | "stop"> {
  readonly mode: M;
}

/**
 * Runs a mode: starts its loop and the source, watches the iptables backend, and removes leftovers after the first
 * sync whose rules the kernel accepts.
 */
export async function runMode<M extends BegunMode>(
  parts: RunModeContext,
  begin: (shared: Pick<ModeContext, "apiServers" | "live" | "onReport">) => Promise<M>,
): Promise<RunOfMode<M>> {
  const { config, source, events } = parts;
  const stopped = new AbortController();
  const live = { current: config };
  const mode = await begin({
    live,
    apiServers: rememberServers(() => source.servers?.() ?? []),
    onReport: (report) => {
      parts.onReport?.(report);
      // Until then, leftover rules serve traffic.
      if (hasAllRules(report)) removeLeftovers();
    },
  });
  const { loop, iptables } = mode;
  // If this run writes no rules, a later run has none to remove.
  const writesRules = iptables !== undefined && !config.observeOnly;
  const modeRecord = writesRules ? parts.modeRecord : undefined;
  await modeRecord?.begin(config.mode);
  const removeLeftovers = onceSynced({ ...parts, stop: stopped.signal }, async () => {
    if (mode.removeLeftovers === undefined) return true;
    await loop.settled();
    const isGone = await mode.removeLeftovers(stopped.signal);
    // Leftovers that another proxy may use were not removed.
    if (isGone && !stopped.signal.aborted && !mayBeInUse(config)) modeRecord?.tidied(config.mode);
    return isGone;
  });
  const backendWatch = iptables && new BackendWatch(iptables, parts, config.verificationPeriodMs);
  loop.start();
  backendWatch?.start();
  await source.start(sourceListener(loop.input, parts), mode.servedBefore);
  events.record(startingEvent(config.nodeName));
  return {
    mode,
    settled: () => loop.settled(),
    reconfigure: async (next) => {
      await mode.configure?.(next);
      live.current = next;
      loop.reconfigured();
    },
    stop: async () => {
      stopped.abort();
      backendWatch?.stop();
      await source.stop();
      await loop.stop();
    },
  };
}
