/** Collects what userspace mode does with packets to some addresses and ports, from the daemon's state. */

import {
  type Destination,
  type ListenerFact,
  type PlannedState,
  withoutIpvs,
} from "../../answer/answers.ts";
import { familyOf, type IpAddress } from "../../base/ip.ts";
import type { RuleSet } from "../../state/rule.ts";
import { listenAddressOf } from "../../userspace/listen-addresses.ts";
import type { OpenListener } from "../../userspace/listener.ts";
import { portalRules } from "../../userspace/portal-rules.ts";
import { byKey, listenerKey } from "../../userspace/service-listeners.ts";
import type { ListenersView } from "./daemon-view.ts";
import { rowsOfClaims } from "./object-claims.ts";
import type { WantedFrontend } from "./wanted-frontends.ts";

export async function listenerFacts(
  view: ListenersView,
  destinations: readonly Destination[],
): Promise<PlannedState> {
  const open = openFor(view, destinations);
  return {
    ...withoutIpvs,
    mode: "userspace",
    ...(view.iptables === undefined ? {} : { iptablesBackend: view.iptables.choice.backend }),
    services: await rowsOfClaims(view, destinations, byListener),
    rules: view.iptables === undefined ? {} : rulesOf(view, open),
    listeners: open.map((one) => factOf(one, view)),
  };
}

/** The listeners for these destinations, in the order of their rules. */
function openFor(
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

function rulesOf(
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
