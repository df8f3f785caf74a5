/**
 * Rows for the endpoints of one virtual server: those in the slices, those planned, and those in the kernel. Pure.
 */

import type { DrainTimes, EndpointRow } from "../../answer/rows.ts";
import type { HostPort } from "../../base/ip.ts";
import type { Endpoint } from "../../model/endpoints.ts";
import { isPolicyLocal } from "../../plan/frontends.ts";
import type { Preference } from "../../plan/preference.ts";
import type { Drain } from "../../reconcile/drain/drains.ts";
import {
  type ObservedRealServer,
  type RealServer,
  realServerKey,
} from "../../state/real-server.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import type { Absence } from "./absence.ts";
import type { DaemonView, ObjectsView } from "./daemon-view.ts";
import { drainTimes } from "./drain-rows.ts";
import type { WantedFrontend } from "./wanted-frontends.ts";

interface EndpointsInput extends WantedFrontend {
  /** Why the frontend is not served. Undefined if it is served. */
  readonly serverReason: string | undefined;
}

export interface RowContext {
  readonly view: DaemonView | ObjectsView;
  readonly absence: Absence;
  /** The kernel's current real servers. If undefined, the cache is used and no connection counts are shown. */
  readonly observed?: readonly ObservedRealServer[];
}

/**
 * The real servers in the kernel. Undefined in modes without virtual servers, which serve exactly the chosen endpoints.
 */
export function presentServers(
  { key }: Pick<WantedFrontend, "key">,
  { view, observed }: RowContext,
): readonly RealServer[] | undefined {
  if (view.mode !== "ipvs") return undefined;
  return observed ?? view.reconciler.cachedServers.get(key)?.realServers ?? [];
}

/** Rows of the slices' endpoints, sorted by address and port as text, then of real servers that no slice names. */
export function endpointRows(input: EndpointsInput, context: RowContext): readonly EndpointRow[] {
  const { key, serverReason } = input;
  const present = serverReason === undefined ? (presentServers(input, context) ?? []) : [];
  const byKey = new Map<HostPort, RealServer>(present.map((one) => [realServerKey(one), one]));
  const wanted = new Set(input.realServers.map(realServerKey));
  const hasOnlyLocal = isOnlyLocal(input, wanted);
  const named = input.endpoints().map((endpoint) => {
    const server = byKey.get(endpoint.key);
    byKey.delete(endpoint.key);
    const reason = wanted.has(endpoint.key)
      ? absentReason(endpoint, server, input, context)
      : notChosenReason(endpoint, hasOnlyLocal, input.preference);
    return {
      ...namedEndpoint(endpoint),
      ...serverFields(server, key, context),
      ...signalOf(endpoint, input, context.view),
      ...(reason === undefined ? {} : { reason }),
    };
  });
  const unnamed = [...byKey.values()].map(
    (server): EndpointRow => ({
      address: server.address,
      port: server.port,
      ...serverFields(server, key, context),
      reason: "endpoint-removed",
    }),
  );
  return [...named, ...unnamed];
}

/** The fields that come from the EndpointSlices. */
function namedEndpoint({
  address,
  port,
  nodeName,
  isReady,
  isServing,
  isTerminating,
  isLocal,
  zoneHints,
  nodeHints,
}: Endpoint): EndpointRow {
  return {
    ...{ address, port },
    ...(nodeName === "" ? {} : { node: nodeName }),
    ...{ ready: isReady, serving: isServing, terminating: isTerminating, local: isLocal },
    ...(zoneHints === undefined ? {} : { zoneHints }),
    ...(nodeHints === undefined ? {} : { nodeHints }),
  };
}

function serverFields(
  server: RealServer | undefined,
  key: ServerKey,
  { view }: RowContext,
): Partial<EndpointRow> {
  if (server === undefined || view.mode !== "ipvs") return {};
  const counts = "activeConnections" in server ? (server as ObservedRealServer) : undefined;
  const drain = drainOf(view.reconciler.drainer.drains.find(key, server), view);
  return {
    weight: server.weight,
    ...(counts === undefined
      ? {}
      : {
          activeConnections: counts.activeConnections,
          inactiveConnections: counts.inactiveConnections,
        }),
    ...(drain === undefined ? {} : { drain }),
  };
}

function signalOf(
  { address, key }: Endpoint,
  { record, realServers }: EndpointsInput,
  view: RowContext["view"],
): Pick<EndpointRow, "weightSignal"> {
  if (view.mode !== "ipvs" || realServers.every((one) => realServerKey(one) !== key)) return {};
  const weightSignal = view.answers.stateOf(record.name, address);
  return weightSignal === undefined ? {} : { weightSignal };
}

function drainOf(drain: Drain | undefined, view: DaemonView): DrainTimes | undefined {
  return drain === undefined ? undefined : drainTimes(drain, view);
}

/** Why a planned endpoint is not served. Undefined if it is served, which in IPVS mode requires a non-zero weight. */
function absentReason(
  { key: realServer }: Endpoint,
  server: RealServer | undefined,
  { key, record, serverReason, realServers }: EndpointsInput,
  { view, absence, observed }: RowContext,
): string | undefined {
  if (serverReason !== undefined || view.mode !== "ipvs") return serverReason;
  if (server !== undefined && server.weight > 0) return undefined;
  const isCached = view.reconciler.cachedServers
    .get(key)
    ?.realServers.some((one) => realServerKey(one) === realServer);
  if (server !== undefined && absence.isManualWeight(key, realServer)) return "manual-weight";
  const planned = realServers.find((one) => realServerKey(one) === realServer);
  if (server !== undefined && planned?.weight === 0) {
    return view.ejections.isEjected(record.name, realServer) ? "ejected" : "zero-weight";
  }
  // A third party removed the real server or set its weight to 0, and no verification has found this yet.
  if (observed !== undefined && isCached === true) return "drifted";
  return absence.reasonOf({ type: "real-server", virtualServer: key, realServer }, record.name);
}

/**
 * Why planning did not choose an endpoint; see the table in `model/topology.ts`. `hasOnlyLocal`: because the traffic
 * policy is Local, only endpoints on this node were chosen.
 */
function notChosenReason(
  endpoint: Endpoint,
  hasOnlyLocal: boolean,
  preference: Preference | undefined,
): string {
  if (!endpoint.isReady) {
    return endpoint.isServing && endpoint.isTerminating ? "terminating" : "not-ready";
  }
  if (preference?.excluded.has(endpoint.key) === true) return "not-preferred";
  return hasOnlyLocal && !endpoint.isLocal ? "not-local" : "hinted-elsewhere";
}

/** Whether the traffic policy is Local and only endpoints on this node were chosen. */
function isOnlyLocal(
  { servicePort, kind, endpoints }: WantedFrontend,
  chosen: ReadonlySet<HostPort>,
): boolean {
  return (
    isPolicyLocal(servicePort, kind) &&
    endpoints().every(({ key, isLocal }) => isLocal || !chosen.has(key))
  );
}
