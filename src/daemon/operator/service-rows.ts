/** Rows of Services, made one after another from the daemon's own state: pure reading, but for counts of connections. */

import type { ServiceRow, ServicesQuery } from "../../answer/answers.ts";
import type { ServiceName } from "../../api/objects.ts";
import { isPolicyLocal } from "../../plan/frontends.ts";
import { type RealServer, realServerKey } from "../../state/real-server.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import { absenceOf } from "./absence.ts";
import type { DaemonView } from "./daemon-view.ts";
import { type EndpointsContext, endpointRows, type WantedServer } from "./endpoint-rows.ts";
import { claimedBy, namesOf, serviceNames, sourceRangesOf } from "./row-fields.ts";
import { ServiceEndpoints } from "./service-endpoints.ts";

/** Virtual servers whose connections are counted by one request to the kernel. */
const serversPerRead = 50;

/**
 * Rows by namespace and name of the Service, then in the order of its ports. What changes meanwhile is seen or not,
 * Service by Service. Rejects where the kernel does not answer for counts of connections.
 */
export async function* serviceRows(
  view: DaemonView,
  query: ServicesQuery,
): AsyncGenerator<ServiceRow> {
  const absence = absenceOf(view.history);
  const names = await serviceNames(view.plan.tracker, view.clock, query);
  if (!query.hasConnections) {
    for (const wanted of wantedServers(view, names)) yield rowOf(wanted, { view, query, absence });
    return;
  }
  for (const group of groupsOf(wantedServers(view, names), serversPerRead)) {
    const observed = await view.ipvs.listRealServers(
      group.map(({ planned }) => planned.virtualServer),
    );
    for (const [index, wanted] of group.entries()) {
      const isPresent = view.reconciler.cachedServers.has(wanted.key);
      const servers = isPresent ? { observed: observed[index] ?? [] } : {};
      yield rowOf(wanted, { view, query, absence, ...servers });
    }
  }
}

function* wantedServers(view: DaemonView, names: readonly ServiceName[]): Generator<WantedServer> {
  for (const name of names) {
    const record = view.plan.tracker.service(name);
    if (record === undefined) continue;
    const slices = view.plan.tracker.slicesOf(name);
    for (const family of view.families) {
      const endpoints = new ServiceEndpoints(slices, family, view.config.nodeName);
      for (const plan of view.plan.desired.plansOf(name, family)) {
        for (const planned of plan.virtualServers) {
          const key = virtualServerKey(planned.virtualServer);
          yield { record, plan, planned, key, endpoints };
        }
      }
    }
  }
}

interface RowContext extends EndpointsContext {
  readonly query: ServicesQuery;
}

function rowOf(wanted: WantedServer, context: RowContext): ServiceRow {
  const { record, plan, planned, key } = wanted;
  const { servicePort } = plan;
  const { virtualServer, kind } = planned;
  const reason = virtualServerReason(wanted, context);
  const { query } = context;
  return {
    ...namesOf(record.name),
    ...(servicePort.portName === "" ? {} : { portName: servicePort.portName }),
    type: record.type,
    frontend: kind,
    protocol: virtualServer.protocol,
    address: virtualServer.address,
    port: virtualServer.port,
    scheduler: virtualServer.scheduler,
    affinitySeconds: virtualServer.persistenceTimeoutSeconds,
    trafficPolicy: isPolicyLocal(servicePort, kind) ? "Local" : "Cluster",
    ...sourceRangesOf(servicePort, kind),
    ...(reason === undefined ? {} : { reason }),
    ...claimedBy(context.view.plan.desired.claims.lostTo(plan.servicePort, key)),
    realServers: {
      planned: planned.realServers.length,
      programmed: reason === undefined ? programmedCount(wanted, context) : 0,
      draining: reason === undefined ? context.view.reconciler.drainer.drains.of(key).length : 0,
    },
    ...(query.hasEndpoints || query.hasConnections
      ? { endpoints: endpointRows({ ...wanted, serverReason: reason }, context) }
      : {}),
  };
}

/** Undefined: the kernel has it. */
function virtualServerReason(
  { planned, key, record }: WantedServer,
  { view, absence }: RowContext,
): string | undefined {
  if (view.plan.desired.virtualServer(key) !== planned) return "claimed-by-another-service";
  if (absence.isForeign(key)) return "foreign-virtual-server";
  if (view.reconciler.cachedServers.has(key)) return undefined;
  return absence.reasonOf({ type: "virtual-server", virtualServer: key }, record.name);
}

/** Planned real servers that the kernel has with weight. The cache nearly always holds the very list that is planned. */
function programmedCount({ planned, key }: WantedServer, { view, observed }: RowContext): number {
  const present: readonly RealServer[] =
    observed ?? view.reconciler.cachedServers.get(key)?.realServers ?? [];
  if (present === planned.realServers) return present.length;
  const taking = new Set(present.filter(({ weight }) => weight > 0).map(realServerKey));
  return planned.realServers.filter((server) => taking.has(realServerKey(server))).length;
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
