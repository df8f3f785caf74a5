import type { Clock } from "../../base/clock.ts";
import type { IpFamily } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import type { Iptables, Ipvs, IpvsTraffic } from "../../kernel/kernel.ts";
import type { ClusterPlan } from "../../plan/cluster-plan.ts";
import type { Reconciler } from "../../reconcile/reconciler.ts";
import type { SyncHistory } from "../report/sync-history.ts";

/** What answers are made of: the daemon's own state, read where it is. Nothing is copied, nothing decided again. */
export interface DaemonView {
  readonly mode: "ipvs";
  readonly config: Config;
  readonly clock: Clock;
  readonly families: readonly IpFamily[];
  readonly plan: Pick<ClusterPlan, "tracker" | "desired" | "rulesOf" | "nodeIp">;
  readonly reconciler: Pick<Reconciler, "cachedServers" | "drainer">;
  readonly history: SyncHistory;
  readonly ipvs: Pick<Ipvs, "listRealServers"> & IpvsTraffic;
  readonly iptables: Pick<Iptables, "choice">;
}

/** What mode iptables knows: it has no objects in the kernel that answer for a Service. */
export interface TablesView
  extends Pick<DaemonView, "config" | "clock" | "families" | "history" | "iptables"> {
  readonly mode: "iptables";
  readonly serviceCount: number;
}

export type ModeView = DaemonView | TablesView;
