/** Collects what is planned for some addresses and ports, by mode. */

import {
  apiVersion,
  type ConflictNote,
  type Destination,
  type ListenerFact,
  type PlanFacts,
  type PlannedState,
  withoutIpvs,
} from "../../answer/answers.ts";
import type { PlanQuery } from "../../answer/questions.ts";
import type { ServiceName } from "../../api/objects.ts";
import { familyOf, type IpAddress, type IpFamily } from "../../base/ip.ts";
import { inSlices } from "../../base/time-slice.ts";
import { bySeniority, servicePortKey } from "../../model/service-port.ts";
import { type Chain, type ChainKey, chainKey, type RuleSet } from "../../state/rule.ts";
import { chainsAboutInSteps } from "../../state/rules-about.ts";
import { listenAddressOf } from "../../userspace/listen-addresses.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import { portalRules } from "../../userspace/portal-rules.ts";
import { byKey, listenerKey } from "../../userspace/service-listeners.ts";
import type { Conflict } from "../report/conflicts.ts";
import { type ListenersView, type ModeView, objectsOf, type TablesView } from "./daemon-view.ts";
import { destinationsOf as destinationsInIpvs, ipvsFacts } from "./ipvs-facts.ts";
import { destinationsOf, rowsOfClaims } from "./object-claims.ts";
import type { WantedFrontend } from "./wanted-frontends.ts";

/**
 * Maximum number of addresses and ports to report for one query. A Service with node ports on many addresses may have
 * more.
 */
const maxDestinations = 100;
const maxConflicts = 20;

/** Rejects if connection counts cannot be read from the kernel. */
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

/** The facts in iptables mode. Reads the planned rules without replanning. */
async function tablesFacts(
  view: TablesView,
  destinations: readonly Destination[],
): Promise<PlannedState> {
  const rules: Partial<Record<IpFamily, RuleSet>> = {};
  for (const family of view.families) {
    if (!destinations.some(({ address }) => familyOf(address) === family)) continue;
    rules[family] = await inSlices(view.clock, rulesAbout(view.rulesOf(family), destinations));
  }
  return {
    ...withoutIpvs,
    mode: "iptables",
    iptablesBackend: view.iptables.choice.backend,
    services: await rowsOfClaims(view, destinations, byAge),
    rules,
  };
}

function byAge(one: WantedFrontend, other: WantedFrontend): number {
  return bySeniority(seniorityOf(one), seniorityOf(other));
}

function seniorityOf({ servicePort }: WantedFrontend): Parameters<typeof bySeniority>[0] {
  return { ...servicePort, name: servicePortKey(servicePort) };
}

/** The rules that packets to the destinations may traverse. Yields after each chain and rule. */
function* rulesAbout(
  { chains, jumps }: RuleSet,
  destinations: readonly Destination[],
): Generator<void, RuleSet> {
  const byKey = new Map<ChainKey, Chain>();
  for (const chain of chains) {
    byKey.set(chainKey(chain.table, chain.name), chain);
    yield;
  }
  const jumpsByKey = Map.groupBy(jumps, ({ table, from }) => chainKey(table, from));
  const about = yield* chainsAboutInSteps(destinations, (key) => {
    const rules = byKey.get(key)?.rules ?? jumpsByKey.get(key)?.map(({ rule }) => rule);
    return rules?.map((rule) => ({ rule }));
  });
  return {
    chains: [...about].flatMap(([key, kept]) => {
      const chain = byKey.get(key);
      return chain === undefined ? [] : [{ ...chain, rules: kept.map(({ rule }) => rule) }];
    }),
    jumps,
  };
}

/** The facts in userspace mode. */
async function listenerFacts(
  view: ListenersView,
  destinations: readonly Destination[],
): Promise<PlannedState> {
  const open = listenersFor(view, destinations);
  return {
    ...withoutIpvs,
    mode: "userspace",
    ...(view.iptables === undefined ? {} : { iptablesBackend: view.iptables.choice.backend }),
    services: await rowsOfClaims(view, destinations, byListener),
    rules: view.iptables === undefined ? {} : portalRulesOf(view, open),
    listeners: open.map((one) => factOf(one, view)),
  };
}

/** The listeners for these destinations, in the order of their rules. */
function listenersFor(
  view: ListenersView,
  destinations: readonly Destination[],
): readonly OpenListener[] {
  const isFor = ({ wanted, localPorts }: OpenListener, { address, ...to }: Destination): boolean =>
    wanted.family === familyOf(address) &&
    wanted.protocol === to.protocol &&
    ((wanted.port === to.port && wanted.addresses.includes(address)) ||
      wanted.nodePort === to.port ||
      localPorts.port === to.port);
  return view
    .open()
    .filter((one) => destinations.some((destination) => isFor(one, destination)))
    .sort((one, other) => byKey(one.wanted, other.wanted));
}

function portalRulesOf(
  { families }: ListenersView,
  open: readonly OpenListener[],
): PlannedState["rules"] {
  return Object.fromEntries(
    families.map((family): [string, RuleSet] => [family, portalRules(family, open)]),
  );
}

function factOf({ wanted, localPorts }: OpenListener, view: ListenersView): ListenerFact {
  const { family, protocol, backends } = wanted;
  const { bindAddress } = view.config;
  const isRedirected = view.iptables !== undefined;
  const { host } = listenAddressOf(wanted, { bindAddress, isRedirected }) ?? { host: bindAddress };
  return {
    ...{ family, protocol },
    host: host as IpAddress,
    ...localPorts,
    backends: backends.map(({ address, port }) => ({ address, port })),
  };
}

function byListener(
  { servicePort: one }: WantedFrontend,
  { servicePort: other }: WantedFrontend,
): number {
  return listenerKey(one, one.family) < listenerKey(other, other.family) ? -1 : 1;
}
