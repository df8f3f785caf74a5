/** Rows of Services in modes without virtual servers: from the objects, chosen as planning chooses. Pure reading. */

import type { EndpointRow, ServiceRow, ServicesQuery } from "../../answer/answers.ts";
import type { ServiceName, ServiceRecord } from "../../api/objects.ts";
import { type IpFamily, wildcardAddresses } from "../../base/ip.ts";
import type { Endpoint } from "../../model/endpoints.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { servicePortsOf } from "../../model/service-ports.ts";
import { chooseEndpoints } from "../../model/topology.ts";
import { type AskedFrontend, askedFrontends, isPolicyLocal } from "../../plan/frontends.ts";
import { virtualServerKey } from "../../state/virtual-server.ts";
import type { ObjectsView } from "./daemon-view.ts";
import { namedEndpoint, notChosenReason } from "./endpoint-rows.ts";
import { claimedBy, namesOf, serviceNames, sourceRangesOf } from "./row-fields.ts";
import { ServiceEndpoints } from "./service-endpoints.ts";

/** What the rows of one service port have in common. */
interface Subject {
  readonly record: ServiceRecord;
  readonly family: IpFamily;
  readonly servicePort: ServicePort;
  readonly endpoints: ServiceEndpoints;
}

/** Rows by namespace and name of the Service, then in the order of its ports. */
export async function* objectRows(
  view: ObjectsView,
  query: ServicesQuery,
): AsyncGenerator<ServiceRow> {
  for (const name of await serviceNames(view.objects, view.clock, query)) {
    const record = view.objects.service(name);
    if (record === undefined) continue;
    for (const family of view.families) yield* rowsOfFamily(view, query, { name, record, family });
  }
}

function* rowsOfFamily(
  view: ObjectsView,
  query: ServicesQuery,
  asked: { readonly name: ServiceName; readonly record: ServiceRecord; readonly family: IpFamily },
): Generator<ServiceRow> {
  const { name, record, family } = asked;
  const slices = view.objects.slicesOf(name);
  const endpoints = new ServiceEndpoints(slices, family, view.config.nodeName);
  for (const servicePort of servicePortsOf(record, family)) {
    const subject = { record, family, servicePort, endpoints };
    for (const frontend of askedFrontends(servicePort, [wildcardAddresses[family]])) {
      yield rowOf(subject, frontend, view, query);
    }
  }
}

function rowOf(
  subject: Subject,
  { kind, address, port }: AskedFrontend,
  view: ObjectsView,
  query: ServicesQuery,
): ServiceRow {
  const { record, servicePort, endpoints, family } = subject;
  const isLocal = isPolicyLocal(servicePort, kind);
  const named = endpoints.of(servicePort);
  const chosen = view.choose(chooseEndpoints(named, servicePort, view.place), isLocal);
  const key = virtualServerKey({ protocol: servicePort.protocol, address, port });
  const lost = view.lostTo(servicePort, key);
  const reason =
    lost === undefined ? view.absentReason(servicePort, family) : "claimed-by-another-service";
  return {
    ...namesOf(record.name),
    ...(servicePort.portName === "" ? {} : { portName: servicePort.portName }),
    type: record.type,
    frontend: kind,
    protocol: servicePort.protocol,
    ...{ address, port },
    scheduler: view.scheduler,
    affinitySeconds: servicePort.affinitySeconds,
    trafficPolicy: isLocal ? "Local" : "Cluster",
    ...sourceRangesOf(servicePort, kind),
    ...(reason === undefined ? {} : { reason }),
    ...claimedBy(lost),
    realServers: {
      planned: chosen.length,
      programmed: reason === undefined ? chosen.length : 0,
      draining: 0,
    },
    ...(query.hasEndpoints || query.hasConnections
      ? { endpoints: named.map((one) => endpointRow(one, { ...subject, isLocal, chosen, reason })) }
      : {}),
  };
}

interface EndpointContext extends Subject {
  readonly isLocal: boolean;
  readonly chosen: readonly Endpoint[];
  /** Why nothing of this service port is served; undefined: it is. */
  readonly reason: string | undefined;
}

function endpointRow(endpoint: Endpoint, context: EndpointContext): EndpointRow {
  const isChosen = context.chosen.some(({ key }) => key === endpoint.key);
  const reason = isChosen ? context.reason : notChosenReason(endpoint, context.isLocal);
  const row = namedEndpoint(endpoint, context.endpoints);
  return reason === undefined ? row : { ...row, reason };
}
