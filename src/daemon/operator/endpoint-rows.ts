/** The endpoints behind one virtual server: what the slices name, what is planned, what the kernel has. Pure. */

import type { DrainTimes, EndpointRow } from "../../answer/answers.ts";
import type { ServiceRecord } from "../../api/objects.ts";
import type { Endpoint } from "../../model/endpoints.ts";
import { isPolicyLocal } from "../../plan/frontends.ts";
import type { PlannedVirtualServer, ServicePortPlan } from "../../plan/service-port-plan.ts";
import type { Drain } from "../../reconcile/drain/drains.ts";
import {
  type ObservedRealServer,
  type RealServer,
  realServerKey,
} from "../../state/real-server.ts";
import type { Absence } from "./absence.ts";
import type { DaemonView } from "./daemon-view.ts";
import { drainTimes } from "./drain-rows.ts";
import type { ServiceEndpoints } from "./service-endpoints.ts";

/** A virtual server that a Service wants, with all that a row is made of. */
export interface WantedServer {
  readonly record: ServiceRecord;
  readonly plan: ServicePortPlan;
  readonly planned: PlannedVirtualServer;
  /** Of the virtual server. */
  readonly key: string;
  readonly endpoints: ServiceEndpoints;
}

interface EndpointsInput extends WantedServer {
  /** Why there is no such virtual server; undefined: there is. */
  readonly serverReason: string | undefined;
}

export interface EndpointsContext {
  readonly view: DaemonView;
  readonly absence: Absence;
  /** What the kernel has now; absent: the cache has to do, and there are no counts. */
  readonly observed?: readonly ObservedRealServer[];
}

/** By address and port as text; real servers that no slice names come last. */
export function endpointRows(
  input: EndpointsInput,
  context: EndpointsContext,
): readonly EndpointRow[] {
  const { key, plan, endpoints, serverReason } = input;
  const { view, observed } = context;
  const cached = view.reconciler.cachedServers.get(key)?.realServers ?? [];
  const present = serverReason === undefined ? (observed ?? cached) : [];
  const byKey = new Map<string, RealServer>(present.map((one) => [realServerKey(one), one]));
  const wanted = new Set(input.planned.realServers.map(realServerKey));
  const named = endpoints.of(plan.servicePort).map((endpoint) => {
    const server = byKey.get(endpoint.key);
    byKey.delete(endpoint.key);
    const reason = wanted.has(endpoint.key)
      ? absentReason(endpoint, server, input, context)
      : notChosenReason(endpoint, isOnlyLocal(input, wanted));
    return {
      ...namedEndpoint(endpoint, endpoints),
      ...serverFields(server, key, context),
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

/** What the slices say of it. */
export function namedEndpoint(
  { address, port, isReady, isServing, isTerminating, isLocal, zoneHints, nodeHints }: Endpoint,
  endpoints: ServiceEndpoints,
): EndpointRow {
  const node = endpoints.nodeOf(address);
  return {
    ...{ address, port },
    ...(node === "" ? {} : { node }),
    ...{ ready: isReady, serving: isServing, terminating: isTerminating, local: isLocal },
    ...(zoneHints === undefined ? {} : { zoneHints }),
    ...(nodeHints === undefined ? {} : { nodeHints }),
  };
}

function serverFields(
  server: RealServer | undefined,
  key: string,
  { view }: EndpointsContext,
): Partial<EndpointRow> {
  if (server === undefined) return {};
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

function drainOf(drain: Drain | undefined, { config, clock }: DaemonView): DrainTimes | undefined {
  return drain === undefined ? undefined : drainTimes(drain, clock.monotonicMs(), config.drain);
}

/** It is planned; undefined: and it is in the kernel with weight. */
function absentReason(
  { key: realServer }: Endpoint,
  server: RealServer | undefined,
  { key, record, serverReason }: EndpointsInput,
  { view, absence, observed }: EndpointsContext,
): string | undefined {
  if (serverReason !== undefined) return serverReason;
  if (server !== undefined && server.weight > 0) return undefined;
  const isCached = view.reconciler.cachedServers
    .get(key)
    ?.realServers.some((one) => realServerKey(one) === realServer);
  if (server !== undefined && absence.isManualWeight(key, realServer)) return "manual-weight";
  // A third party removed it, or took its weight, and no verification has come there yet.
  if (observed !== undefined && isCached === true) return "drifted";
  return absence.reasonOf({ type: "real-server", virtualServer: key, realServer }, record.name);
}

/**
 * Why planning did not choose an endpoint: what is left of the table in `model/topology.ts`. `isOnlyLocal`: those that were
 * chosen are the node's own, since the policy says so.
 */
export function notChosenReason(endpoint: Endpoint, isOnlyLocal: boolean): string {
  if (!endpoint.isReady) {
    return endpoint.isServing && endpoint.isTerminating ? "terminating" : "not-ready";
  }
  return isOnlyLocal && !endpoint.isLocal ? "not-local" : "hinted-elsewhere";
}

/** Policy Local, and no endpoint elsewhere was chosen in its place. */
function isOnlyLocal(
  { plan, planned, endpoints }: EndpointsInput,
  chosen: ReadonlySet<string>,
): boolean {
  const { servicePort } = plan;
  return (
    isPolicyLocal(servicePort, planned.kind) &&
    endpoints.of(servicePort).every(({ key, isLocal }) => isLocal || !chosen.has(key))
  );
}
