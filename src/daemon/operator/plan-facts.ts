/** Collects what is planned for some addresses and ports, by mode. */

import {
  apiVersion,
  type ConflictNote,
  type Destination,
  type PlanFacts,
  type PlannedState,
} from "../../answer/answers.ts";
import type { PlanQuery } from "../../answer/questions.ts";
import type { ServiceName } from "../../api/objects.ts";
import type { Conflict } from "../report/conflicts.ts";
import { type ModeView, objectsOf } from "./daemon-view.ts";
import { destinationsOf as destinationsInIpvs, ipvsFacts } from "./ipvs-facts.ts";
import { listenerFacts } from "./listener-facts.ts";
import { destinationsOf } from "./object-claims.ts";
import { tablesFacts } from "./tables-facts.ts";

/**
 * Maximum number of addresses and ports to report for one Service. A Service with node ports on many addresses may
 * have more.
 */
const maxDestinations = 100;
const maxConflicts = 20;

/** Rejects if the kernel cannot be read for connection counts. */
export async function planFacts(view: ModeView, query: PlanQuery): Promise<PlanFacts> {
  const all =
    query.kind === "destination"
      ? [query.destination]
      : servicesAsked(view, query).flatMap((service) => servedAt(view, service));
  const destinations = all.slice(0, maxDestinations);
  return {
    apiVersion,
    kind: "PlanFacts",
    families: view.families,
    destinations,
    isTruncated: all.length > destinations.length,
    conflicts: conflictsAbout(view, query),
    ...(await plannedState(view, destinations, query)),
  };
}

/** Maximum number of sampled Services. */
const maxSampled = 20;

function servicesAsked(
  view: ModeView,
  query: Exclude<PlanQuery, { kind: "destination" }>,
): readonly ServiceName[] {
  if (query.kind === "service") return [`${query.namespace}/${query.name}`];
  const names = [...objectsOf(view).serviceNames()];
  const step = Math.ceil(names.length / maxSampled);
  return names.filter((_, index) => index % step === 0);
}

async function plannedState(
  view: ModeView,
  destinations: readonly Destination[],
  { from }: PlanQuery,
): Promise<PlannedState> {
  switch (view.mode) {
    case "ipvs":
      return await ipvsFacts(view, destinations, from);
    case "iptables":
      return await tablesFacts(view, destinations);
    case "userspace":
      return await listenerFacts(view, destinations);
  }
}

/** The conflicts that concern the query. A conflict without an address concerns the whole Service. */
function conflictsAbout({ history }: ModeView, query: PlanQuery): readonly ConflictNote[] {
  const isAsked = ({ service, keys }: Conflict): boolean => {
    if (query.kind === "service") return service === `${query.namespace}/${query.name}`;
    if (query.kind === "sample") return false;
    const { address, port } = query.destination;
    const { address: of, port: at = port } = keys;
    return of === address && at === port;
  };
  return history.conflicts
    .filter(isAsked)
    .slice(0, maxConflicts)
    .map(({ service, note: message, remedy }) => ({ service, message, remedy }));
}

function servedAt(view: ModeView, service: ServiceName): readonly Destination[] {
  if (view.mode === "ipvs") return destinationsInIpvs(view, service);
  return destinationsOf(view, service, view.mode === "userspace" ? view.nodeAddresses() : []);
}
