/** Where the kernel is not as planned, as far as it concerns one destination. Pure. */

import type { Destination, ListenerFact, PlanFacts } from "../answer/answers.ts";
import type { Difference } from "../answer/explanation.ts";
import { hostPort } from "../base/ip.ts";
import { realServerKey } from "../state/real-server.ts";
import { chainKey } from "../state/rule.ts";
import { chainsAbout } from "../state/rules-about.ts";
import { sameVirtualServer, virtualServerKey } from "../state/virtual-server.ts";
import type { ListedChains, ListedRule, ListedServer, NodeState } from "./packet/node-state.ts";

/** What is planned and what is there, about one destination. */
export interface Compared {
  readonly planned: NodeState;
  readonly observed: NodeState;
  readonly destination: Destination;
  readonly mode: PlanFacts["mode"];
}

export function differencesOf(compared: Compared): readonly Difference[] {
  const { mode, observed } = compared;
  return [
    ...addressDifferences(compared),
    ...chainDifferences(compared),
    ...setDifferences(compared),
    ...serverDifferences(compared),
    ...(mode !== "ipvs" || observed.network.isIpvsTracked
      ? []
      : [{ kind: "different", subject: "sysctl net.ipv4.vs.conntrack is 0, planned 1" } as const]),
  ];
}

function missing(subject: string): Difference {
  return { kind: "missing", subject };
}

function notPlanned(subject: string): Difference {
  return { kind: "not-planned", subject };
}

function addressDifferences({
  planned,
  observed,
  destination: { address },
}: Compared): readonly Difference[] {
  const subject = `address ${address} on kube-ipvs0`;
  if (planned.bound.has(address) === observed.bound.has(address)) return [];
  return [planned.bound.has(address) ? missing(subject) : notPlanned(subject)];
}

/** Of chains that packets to the destination meet. */
function chainDifferences({ planned, observed, destination }: Compared): readonly Difference[] {
  const destinations = withSockets(destination, planned.serviceSockets);
  const about = ({ chains }: NodeState): ListedChains =>
    chainsAbout(destinations, (key) => chains.get(key));
  const present = about(observed);
  return [...about(planned)].flatMap(([key, rules]) => {
    // A chain that no rule leads to any more may still exist.
    const others = present.get(key) ?? observed.chains.get(key);
    if (others === undefined) return [missing(`chain ${key}`)];
    return [
      ...without(rules, others).map((text) => missing(`rule ${key} ${text}`)),
      ...(isOurs(key)
        ? without(others, rules).map((text) => notPlanned(`rule ${key} ${text}`))
        : []),
    ];
  });
}

/** Of built-in chains only the planned rules are of interest, and kubelet writes KUBE-FIREWALL, too. */
function isOurs(key: string): boolean {
  return key.includes(" KUBE-") && key !== chainKey("filter", "KUBE-FIREWALL");
}

/** Rules let in what comes to the ports of sockets. */
export function withSockets(
  destination: Destination,
  sockets: readonly ListenerFact[],
): readonly Destination[] {
  const led = sockets.flatMap(({ protocol, port, portOnLoopback }) =>
    [...new Set([port, portOnLoopback])].map((one) => ({ ...destination, protocol, port: one })),
  );
  return [destination, ...led];
}

function without(rules: readonly ListedRule[], others: readonly ListedRule[]): readonly string[] {
  const texts = new Set(others.map(({ text }) => text));
  return rules.filter(({ text }) => !texts.has(text)).map(({ text }) => text);
}

function setDifferences({ planned, observed, destination }: Compared): readonly Difference[] {
  const { protocol, address, port } = destination;
  const own = `${address},${protocol.toLowerCase()}:${port}`;
  const isAbout = (entry: string): boolean =>
    entry === address || entry === own || entry.startsWith(`${own},`);
  return [...planned.sets].flatMap(([name, { entries }]) => {
    const present = observed.sets.get(name);
    if (present === undefined) return [missing(`ipset ${name}`)];
    return [
      ...[...entries]
        .filter((entry) => !present.entries.has(entry) && !isElsewhere(entry, own, destination))
        .map((entry) => missing(`entry ${entry} of ${name}`)),
      ...[...present.entries]
        .filter((entry) => isAbout(entry) && !entries.has(entry))
        .map((entry) => notPlanned(`entry ${entry} of ${name}`)),
    ];
  });
}

/** Of a Service's other addresses and ports. Entries of its endpoints, which begin and end with the same address, are of all. */
function isElsewhere(
  entry: string,
  own: string,
  { address, port }: Compared["destination"],
): boolean {
  const [first = "", second, third] = entry.split(",");
  if (second !== undefined) return third !== first && `${first},${second}` !== own;
  return first !== (/^\d+$/.test(first) ? String(port) : address);
}

function serverDifferences({ planned, observed, destination }: Compared): readonly Difference[] {
  const key = virtualServerKey(destination);
  const [wanted, present] = [planned.servers.get(key), observed.servers.get(key)];
  if (wanted === undefined) {
    return present === undefined ? [] : [notPlanned(`virtual server ${key}`)];
  }
  if (present === undefined) return [missing(`virtual server ${key}`)];
  return [...parameterDifference(key, wanted, present), ...realServers(key, wanted, present)];
}

function parameterDifference(
  key: string,
  { virtualServer: wanted }: ListedServer,
  { virtualServer: present }: ListedServer,
): readonly Difference[] {
  if (sameVirtualServer(wanted, present)) return [];
  const text = ({ scheduler, persistenceTimeoutSeconds, flags }: typeof wanted): string =>
    `${scheduler}, persistence ${persistenceTimeoutSeconds} s, flags ${flags}`;
  const subject = `virtual server ${key}: ${text(present)}, planned ${text(wanted)}`;
  return [{ kind: "different", subject }];
}

/** One with weight 0 drains: nobody plans it any more, and it is as it should be. */
function realServers(
  key: string,
  wanted: ListedServer,
  present: ListedServer,
): readonly Difference[] {
  const takes = new Set(present.realServers.filter(({ weight }) => weight > 0).map(realServerKey));
  const planned = new Set(wanted.realServers.map(realServerKey));
  const subject = ({ address, port }: ListedServer["realServers"][number]): string =>
    `real server ${hostPort(address, port)} of ${key}`;
  return [
    ...wanted.realServers
      .filter((one) => one.weight > 0 && !takes.has(realServerKey(one)))
      .map((one) => missing(subject(one))),
    ...present.realServers
      .filter((one) => one.weight > 0 && !planned.has(realServerKey(one)))
      .map((one) => notPlanned(subject(one))),
  ];
}
