/** What is planned about some addresses and ports: each mode says it its own way. */

import {
  apiVersion,
  type Destination,
  type PlanFacts,
  type PlanQuery,
} from "../../answer/answers.ts";
import type { ServiceName } from "../../api/objects.ts";
import type { ModeView } from "./daemon-view.ts";
import { destinationsOf as destinationsInIpvs, ipvsFacts } from "./ipvs-facts.ts";
import { listenerFacts } from "./listener-facts.ts";
import { destinationsOf } from "./object-claims.ts";
import { tablesFacts } from "./tables-facts.ts";

/** Addresses and ports of one Service: with node ports on many addresses there are more. */
const maxDestinations = 100;

/** Rejects where the kernel does not answer for counts of connections. */
export async function planFacts(view: ModeView, query: PlanQuery): Promise<PlanFacts> {
  const all =
    query.kind === "destination"
      ? [query.destination]
      : servedAt(view, `${query.namespace}/${query.name}`);
  const destinations = all.slice(0, maxDestinations);
  const asked = {
    apiVersion,
    kind: "PlanFacts",
    families: view.families,
    destinations,
    isTruncated: all.length > destinations.length,
  } as const;
  switch (view.mode) {
    case "ipvs":
      return { ...asked, ...(await ipvsFacts(view, destinations, query.from)) };
    case "iptables":
      return { ...asked, ...(await tablesFacts(view, destinations)) };
    case "userspace":
      return { ...asked, ...(await listenerFacts(view, destinations)) };
  }
}

function servedAt(view: ModeView, service: ServiceName): readonly Destination[] {
  if (view.mode === "ipvs") return destinationsInIpvs(view, service);
  return destinationsOf(view, service, view.mode === "userspace" ? view.nodeAddresses() : []);
}
