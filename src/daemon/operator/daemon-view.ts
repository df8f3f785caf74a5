import type { Clock } from "../../base/clock.ts";
import type { IpAddress, IpFamily } from "../../base/ip.ts";
import type { Config } from "../../config/config.ts";
import type { Iptables, Ipvs, IpvsTraffic } from "../../kernel/kernel.ts";
import type { ChangeTracker } from "../../model/change-tracker.ts";
import type { Endpoint } from "../../model/endpoints.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { ChosenEndpoints, NodePlace } from "../../model/topology.ts";
import type { LostTo } from "../../plan/claims/claim.ts";
import type { ClusterPlan } from "../../plan/cluster-plan.ts";
import type { Frontend } from "../../plan/frontends.ts";
import type { Reconciler } from "../../reconcile/reconciler.ts";
import type { RuleSet } from "../../state/rule.ts";
import type { OpenListener } from "../../userspace/listener.ts";
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

/** An address and port of a service port; without an address: every one of the node. */
export interface ServedAddress extends Pick<Frontend, "kind" | "port"> {
  readonly address?: IpAddress;
}

/** What modes without virtual servers know alike: their objects, and which of their endpoints they use. */
export interface ObjectsView extends Pick<DaemonView, "config" | "clock" | "families" | "history"> {
  readonly mode: "iptables" | "userspace";
  /** Undefined without rules. */
  readonly iptables?: Pick<Iptables, "choice">;
  readonly objects: Pick<ChangeTracker, "serviceCount" | "serviceNames" | "service" | "slicesOf">;
  readonly place: NodePlace;
  /** At random, or in turn. */
  readonly scheduler: "random" | "rr";
  /** Of what `model/topology.ts` chooses: for a frontend with policy Local, or another one. */
  choose(chosen: ChosenEndpoints, isPolicyLocal: boolean): readonly Endpoint[];
  /** Who has this address and port (as `virtualServerKey` has it) in place of a service port; undefined: that one. */
  lostTo(port: ServicePort, key: string): LostTo | undefined;
  /** Why a service port is not served; undefined: it is. */
  absentReason(port: ServicePort, family: IpFamily): string | undefined;
  /** Where a service port is served. */
  frontends(port: ServicePort, family: IpFamily): readonly ServedAddress[];
}

/** In iptables mode. */
export interface TablesView extends ObjectsView {
  readonly mode: "iptables";
  readonly iptables: Pick<Iptables, "choice">;
  /** Everything that is planned for a family. */
  rulesOf(family: IpFamily): RuleSet;
}

/** In userspace mode. */
export interface ListenersView extends ObjectsView {
  readonly mode: "userspace";
  /** Service ports that are served now, and where. */
  open(): readonly OpenListener[];
  /** Of all links but loopback, as they are now. */
  nodeAddresses(): readonly IpAddress[];
}

export type ModeView = DaemonView | TablesView | ListenersView;

/** Services and their EndpointSlices, whatever the mode. */
export function objectsOf(view: DaemonView | ObjectsView): ObjectsView["objects"] {
  return view.mode === "ipvs" ? view.plan.tracker : view.objects;
}
