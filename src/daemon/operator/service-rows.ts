/**
 * Generates Service rows one by one from the daemon's state. Reads the kernel only for connection counts.
 */

import { foreignReason, lostReason } from "../../answer/reasons.ts";
import type { ServiceRow, ServicesQuery } from "../../answer/rows.ts";
import { cidrText, familyOf } from "../../base/ip.ts";
import { portRangeText } from "../../base/port-range.ts";
import { inSlices } from "../../base/time-slice.ts";
import type { LostTo } from "../../plan/claims/claim.ts";
import { isPolicyLocal } from "../../plan/frontends.ts";
import { realServerKey } from "../../state/real-server.ts";
import { absenceOf } from "./absence.ts";
import { type ModeView, objectsOf } from "./daemon-view.ts";
import { hasDrifted } from "./drifted-servers.ts";
import { endpointRows, presentServers, type RowContext } from "./endpoint-rows.ts";
import { claimedBy, namesOf, serviceNames } from "./row-fields.ts";
import { findFrontends, type WantedFrontend, wantedFrontends } from "./wanted-frontends.ts";

/** Number of virtual servers whose connection counts are read in one kernel request. */
const serversPerRead = 50;

/**
 * Rows sorted by namespace and name of the Service, then in the order of its ports. A change that arrives during the
 * iteration may or may not be visible. Rejects if connection counts cannot be read from the kernel.
 */
export async function* serviceRows(
  view: ModeView,
  query: ServicesQuery,
): AsyncGenerator<ServiceRow> {
  const { destination } = query;
  const names = await serviceNames(objectsOf(view), view.clock, query);
  const wanted =
    destination === undefined
      ? wantedFrontends(view, names)
      : await inSlices(view.clock, findFrontends(view, names, destination));
  const context = { view, absence: absenceOf(view.history) };
  if (view.mode !== "ipvs" || !query.hasConnections) {
    for (const one of wanted) yield rowOf(one, context, query);
    return;
  }
  for (const group of groupsOf(wanted, serversPerRead)) {
    const observed = await view.ipvs.listRealServers(group.map(({ server }) => server));
    for (const [index, one] of group.entries()) {
      const isPresent = view.reconciler.cachedServers.has(one.key);
      const servers = isPresent ? { observed: observed[index] ?? [] } : {};
      const isDrifted = hasDrifted(one.key, observed[index] ?? [], view, context.absence);
      view.history.noteSeen(one.key, isDrifted);
      yield rowOf(one, { ...context, ...servers }, query);
    }
  }
}

export function rowOf(
  wanted: WantedFrontend,
  context: RowContext,
  query: Pick<ServicesQuery, "hasEndpoints" | "hasConnections">,
): ServiceRow {
  const { record, servicePort, kind, server, key, realServers, preference, tunnelNodes } = wanted;
  const { view } = context;
  const lost = lostTo(view, wanted);
  const reason = lost === undefined ? absentReason(wanted, context) : lostReason;
  const isThere = reason === undefined;
  const ignoredAnnotations = context.absence.ignoredAnnotations(record.name);
  const isDrained = isThere && view.mode === "ipvs";
  const hasSourceRanges = kind === "load-balancer" && servicePort.sourceRanges.length > 0;
  return {
    ...namesOf(record.name),
    ...(servicePort.portName === "" ? {} : { portName: servicePort.portName }),
    type: record.type,
    frontend: kind,
    ...addressFields(wanted),
    scheduler: server.scheduler,
    affinitySeconds: server.persistenceTimeoutSeconds,
    trafficPolicy: isPolicyLocal(servicePort, kind) ? "Local" : "Cluster",
    ...(hasSourceRanges ? { sourceRanges: servicePort.sourceRanges.map(cidrText) } : {}),
    ...(reason === undefined ? {} : { reason }),
    ...claimedBy(lost),
    ...(preference === undefined ? {} : { topologyPreference: preference.state }),
    ...(tunnelNodes === undefined ? {} : { tunnelNodes }),
    ...(ignoredAnnotations.length === 0 ? {} : { ignoredAnnotations }),
    realServers: {
      planned: realServers.length,
      programmed: isThere ? programmedCount(wanted, context) : 0,
      draining: isDrained ? view.reconciler.drainer.drains.of(key).length : 0,
    },
    ...(query.hasEndpoints || query.hasConnections
      ? { endpoints: endpointRows({ ...wanted, serverReason: reason }, context) }
      : {}),
  };
}

function addressFields({
  server: { protocol, address, port },
  range,
}: WantedFrontend): Pick<ServiceRow, "protocol" | "address" | "port" | "ports" | "mark"> {
  if (range === undefined) return { protocol, address, port };
  const { ranges, protocols, mark } = range;
  return {
    protocol: protocols.join(","),
    address: range.address,
    port: ranges[0]?.first ?? 0,
    ports: ranges.map(portRangeText).join(","),
    mark,
  };
}

function lostTo(
  view: RowContext["view"],
  { servicePort, key }: WantedFrontend,
): LostTo | undefined {
  return view.mode === "ipvs"
    ? view.plan.desired.claims.lostTo(servicePort, key)
    : view.lostTo(servicePort, key);
}

/** Why a frontend is not served. Undefined if it is served. */
function absentReason(
  { server, key, record, servicePort, isHeld }: WantedFrontend,
  { view, absence }: RowContext,
): string | undefined {
  if (isHeld === true) return "held-by-node";
  if (view.mode !== "ipvs") return view.absentReason(servicePort, familyOf(server.address));
  if (absence.isForeign(key)) return foreignReason;
  if (view.reconciler.cachedServers.has(key)) return undefined;
  return absence.reasonOf({ type: "virtual-server", virtualServer: key }, record.name);
}

/**
 * Number of planned real servers that accept connections. Usually the cache contains the same array as the plan, so no
 * comparison is needed.
 */
function programmedCount(wanted: WantedFrontend, context: RowContext): number {
  const { realServers } = wanted;
  const present = presentServers(wanted, context);
  if (present === undefined || present === realServers) return realServers.length;
  const taking = new Set(present.filter(({ weight }) => weight > 0).map(realServerKey));
  return realServers.filter((one) => taking.has(realServerKey(one))).length;
}

function* groupsOf<T>(values: Iterable<T>, size: number): Generator<readonly T[]> {
  let group: T[] = [];
  for (const value of values) {
    group.push(value);
    if (group.length < size) continue;
    yield group;
    group = [];
  }
  if (group.length > 0) yield group;
}
