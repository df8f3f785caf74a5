/** Differences between the kernel and the plan for one destination. Pure. */

import type { Destination, ListenerFact, PlanFacts } from "../answer/answers.ts";
import type { Difference } from "../answer/explanation.ts";
import type { HostPort } from "../base/ip.ts";
import { realServerKey } from "../state/real-server.ts";
import { type ChainKey, chainKey } from "../state/rule.ts";
import { chainsAbout } from "../state/rules-about.ts";
import { serves } from "../state/served-range.ts";
import { type ServerKey, sameVirtualServer } from "../state/virtual-server.ts";
import {
  type ListedChains,
  type ListedRule,
  type ListedServer,
  type NodeState,
  plannedServerKey,
} from "./packet/node-state.ts";

/** The planned and the observed state of one destination. */
export interface Compared {
  readonly planned: NodeState;
  readonly observed: NodeState;
  readonly destination: Destination;
  readonly mode: PlanFacts["mode"];
}

export function differencesOf(compared: Compared): readonly Difference[] {
  const { planned, observed, destination, mode } = compared;
  const address = destination.address;
  const boundTo = ({ bound }: NodeState): readonly string[] =>
    bound.has(address) ? [address] : [];
  return [
    ...differing(boundTo(planned), boundTo(observed), (one) => `address ${one} on kube-ipvs0`),
    ...chainDifferences(compared),
    ...setDifferences(compared),
    ...serverDifferences(compared),
    ...(mode !== "ipvs" || observed.network.isIpvsTracked
      ? []
      : [{ kind: "different", subject: "sysctl net.ipv4.vs.conntrack is 0, planned 1" } as const]),
  ];
}

/** Lists missing objects, then unplanned ones. `isOurs` selects the unplanned objects to list. */
function differing(
  planned: Iterable<string>,
  present: Iterable<string>,
  subjectOf: (text: string) => string,
  isOurs: (text: string) => boolean = () => true,
): readonly Difference[] {
  const [wanted, found] = [new Set(planned), new Set(present)];
  return [
    ...[...wanted].filter((text) => !found.has(text)).map((text) => missing(subjectOf(text))),
    ...[...found]
      .filter((text) => !wanted.has(text) && isOurs(text))
      .map((text): Difference => ({ kind: "not-planned", subject: subjectOf(text) })),
  ];
}

function missing(subject: string): Difference {
  return { kind: "missing", subject };
}

/** Compares the chains that packets to the destination may traverse. */
function chainDifferences({ planned, observed, destination }: Compared): readonly Difference[] {
  const destinations = withSockets(destination, planned.serviceSockets);
  const about = ({ chains }: NodeState): ListedChains =>
    chainsAbout(destinations, (key) => chains.get(key));
  const texts = (rules: readonly ListedRule[]): readonly string[] => rules.map(({ text }) => text);
  const present = about(observed);
  return [...about(planned)].flatMap(([key, rules]) => {
    // A chain may still exist even if no rule jumps to it.
    const others = present.get(key) ?? observed.chains.get(key);
    if (others === undefined) return [missing(`chain ${key}`)];
    const subjectOf = (text: string): string => `rule ${key} ${text}`;
    return differing(texts(rules), texts(others), subjectOf, () => isOurs(key));
  });
}

/**
 * Unplanned rules are ignored in built-in chains. They are also ignored in KUBE-FIREWALL, because kubelet writes there
 * too.
 */
function isOurs(key: ChainKey): boolean {
  return key.includes(" KUBE-") && key !== chainKey("filter", "KUBE-FIREWALL");
}

/** Adds the ports of kube-ipvs sockets to the destination, because rules accept packets to these ports. */
export function withSockets(
  destination: Destination,
  sockets: readonly ListenerFact[],
): readonly Destination[] {
  const led = sockets.flatMap(({ protocol, port, portOnLoopback }) =>
    [...new Set([port, portOnLoopback])].map((one) => ({ ...destination, protocol, port: one })),
  );
  return [destination, ...led];
}

function setDifferences({ planned, observed, destination }: Compared): readonly Difference[] {
  const { protocol, address, port } = destination;
  const own = `${address},${protocol.toLowerCase()}:${port}`;
  const isAbout = (entry: string): boolean =>
    entry === address || entry === own || entry.startsWith(`${own},`);
  return [...planned.sets].flatMap(([name, { entries }]) => {
    const present = observed.sets.get(name)?.entries;
    if (present === undefined) return [missing(`ipset ${name}`)];
    const concerned = [...entries].filter(
      (entry) => present.has(entry) || !isElsewhere(entry, own, destination),
    );
    return differing(concerned, present, (entry) => `entry ${entry} of ${name}`, isAbout);
  });
}

/**
 * Whether a set entry concerns a different address or port of the Service. Endpoint entries, whose first and last
 * addresses are equal, apply to all addresses.
 */
function isElsewhere(
  entry: string,
  own: string,
  { address, port }: Compared["destination"],
): boolean {
  const [first = "", second, third] = entry.split(",");
  if (second !== undefined) return third !== first && `${first},${second}` !== own;
  return first !== (/^\d+$/.test(first) ? String(port) : address);
}

function serverDifferences(compared: Compared): readonly Difference[] {
  const { planned, destination } = compared;
  const ofTunnels = [...planned.servers].filter(
    ([, { range }]) => range?.tunnel !== undefined && serves(range, destination),
  );
  const keys = [plannedServerKey(planned, destination), ...ofTunnels.map(([key]) => key)];
  return keys.flatMap((key) => differencesOfServer(key, compared));
}

function differencesOfServer(
  key: ServerKey,
  { planned, observed }: Pick<Compared, "planned" | "observed">,
): readonly Difference[] {
  const [wanted, present] = [planned.servers.get(key), observed.servers.get(key)];
  const keys = (server: ListedServer | undefined): readonly string[] =>
    server === undefined ? [] : [key];
  const absent = differing(keys(wanted), keys(present), () => `virtual server ${key}`);
  if (wanted === undefined || present === undefined) return absent;
  const parameters = ({ virtualServer }: ListedServer): string => {
    const { scheduler, persistenceTimeoutSeconds, flags } = virtualServer;
    return `${scheduler}, persistence ${persistenceTimeoutSeconds} s, flags ${flags}`;
  };
  const subject = `virtual server ${key}: ${parameters(present)}, planned ${parameters(wanted)}`;
  return [
    ...(sameVirtualServer(wanted.virtualServer, present.virtualServer)
      ? []
      : [{ kind: "different", subject } as const]),
    ...realServerDifferences(key, wanted, present),
  ];
}

/** Unplanned real servers with weight 0 are not reported, because they are draining. */
function realServerDifferences(
  key: string,
  wanted: ListedServer,
  present: ListedServer,
): readonly Difference[] {
  const weightsOf = ({ realServers }: ListedServer): ReadonlyMap<HostPort, number> =>
    new Map(realServers.map((one) => [realServerKey(one), one.weight]));
  const [planned, observed] = [weightsOf(wanted), weightsOf(present)];
  const servers = [...new Set([...planned.keys(), ...observed.keys()])];
  return servers.flatMap((server): readonly Difference[] => {
    const subject = `real server ${server} of ${key}`;
    const [weight, plannedWeight] = [observed.get(server), planned.get(server)];
    if (Boolean(weight) === Boolean(plannedWeight)) return [];
    if (weight === undefined) return [missing(subject)];
    if (plannedWeight === undefined) return [{ kind: "not-planned", subject }];
    return [
      { kind: "different", subject: `${subject}: weight ${weight}, planned ${plannedWeight}` },
    ];
  });
}
