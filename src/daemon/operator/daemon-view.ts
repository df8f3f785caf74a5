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
import type { ServerKey } from "../../state/virtual-server.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import type { SyncHistory } from "../report/sync-history.ts";
import type { Ejections } from "../weights/ejections.ts";
import type { WeightAnswers } from "../weights/weight-answers.ts";

/**
 * The state of a daemon in IPVS mode, from which answers are computed. Answers read it in place, without copying or
 * replanning.
 */
export interface DaemonView {
  readonly mode: "ipvs";
  readonly config: Config;
  readonly clock: Clock;
  readonly families: readonly IpFamily[];
  readonly plan: Pick<ClusterPlan, "tracker" | "desired" | "rulesOf" | "nodeIp">;
  readonly answers: Pick<WeightAnswers, "stateOf">;
  readonly ejections: Pick<Ejections, "isEjected">;
  readonly reconciler: Pick<Reconciler, "cachedServers" | "drainer">;
  readonly history: SyncHistory;
  readonly ipvs: Pick<Ipvs, "listRealServers"> & IpvsTraffic;
  readonly iptables: Pick<Iptables, "choice">;
}

/**
 * An address and port of a service port. If `address` is undefined, the port is served on every address of the node.
 */
export interface ServedAddress extends Pick<Frontend, "kind" | "port"> {
  readonly address?: IpAddress;
}

/** The state that iptables and userspace mode share: the objects, and which endpoints are used. */
export interface ObjectsView extends Pick<DaemonView, "config" | "clock" | "families" | "history"> {
  readonly mode: "iptables" | "userspace";
  /** Undefined if the mode writes no rules. */
  readonly iptables?: Pick<Iptables, "choice">;
  readonly objects: Pick<ChangeTracker, "serviceCount" | "serviceNames" | "service" | "slicesOf">;
  readonly place: NodePlace;
  /** How a new connection's endpoint is chosen: at random or round robin. */
  readonly scheduler: "random" | "rr";
  /** Returns the endpoints that a frontend uses. They depend on whether its traffic policy is Local. */
  choose(chosen: ChosenEndpoints, isPolicyLocal: boolean): readonly Endpoint[];
  /**
   * The Service that owns this address and port instead of `port`. Undefined if `port` owns it. `key` is a
   * `virtualServerKey`.
   */
  lostTo(port: ServicePort, key: ServerKey): LostTo | undefined;
  /** Why a service port is not served. Undefined if it is served. */
  absentReason(port: ServicePort, family: IpFamily): string | undefined;
  /** The addresses and ports on which a service port is served. */
  frontends(port: ServicePort, family: IpFamily): readonly ServedAddress[];
}

/** The state in iptables mode. */
export interface TablesView extends ObjectsView {
  readonly mode: "iptables";
  readonly iptables: Pick<Iptables, "choice">;
  /** All planned rules of a family. */
  rulesOf(family: IpFamily): RuleSet;
}

/** The state in userspace mode. */
export interface ListenersView extends ObjectsView {
  readonly mode: "userspace";
  /** The open listeners, with their service ports. */
  open(): readonly OpenListener[];
  /** The current addresses of all links except loopback. */
  nodeAddresses(): readonly IpAddress[];
}

export type ModeView = DaemonView | TablesView | ListenersView;

/** Services and their EndpointSlices in any mode. */
export function objectsOf(view: DaemonView | ObjectsView): ObjectsView["objects"] {
  return view.mode === "ipvs" ? view.plan.tracker : view.objects;
}
