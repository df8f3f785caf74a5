import {
  type Cidr,
  cidrText,
  hostPrefixLength,
  type IpAddress,
  type IpFamily,
} from "../base/ip.ts";
import { none } from "../base/none.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { Chain, Jump, Match, Rule, RuleSet } from "../state/rule.ts";
import type { OpenListener } from "./listener.ts";

/** nat chains for virtual IPs: one for packets from other hosts and pods, and one for packets from this node. */
export const portalChains = {
  fromElsewhere: "KUBE-PORTALS-CONTAINER",
  fromNode: "KUBE-PORTALS-HOST",
} as const;

/** nat chains for node ports: one for packets from other hosts and pods, and one for packets from this node. */
export const nodePortChains = {
  fromElsewhere: "KUBE-NODEPORT-CONTAINER",
  fromNode: "KUBE-NODEPORT-HOST",
} as const;

const sides: readonly Side[] = [
  {
    portals: portalChains.fromElsewhere,
    nodePorts: nodePortChains.fromElsewhere,
    portOf: ({ localPorts }) => localPorts.port,
  },
  // Packets from this node are redirected to the loopback address.
  {
    portals: portalChains.fromNode,
    nodePorts: nodePortChains.fromNode,
    portOf: ({ localPorts }) => localPorts.portOnLoopback,
  },
];
/** Accepts redirected packets that INPUT would otherwise drop, and drops other packets to the listeners' ports. */
const nonLocalChain = "KUBE-NODEPORT-NON-LOCAL";

interface Side {
  /** The chain for virtual IPs. */
  readonly portals: string;
  readonly nodePorts: string;
  readonly portOf: (listener: OpenListener) => number;
}

const clusterIpsComment = "handle ClusterIPs; NOTE: this must be before the NodePort rules";
const nodePortsComment = "handle service NodePorts; NOTE: this must be the last rule in the chain";
const nonLocalComment = "Ensure that non-local NodePort traffic can flow";

/**
 * One family's rules that redirect virtual IPs and node ports to the listeners, in the chains of kube-proxy's userspace
 * mode. If two Services claim an address and port, the first one in `open` owns them. Pure.
 */
export function portalRules(family: IpFamily, open: readonly OpenListener[]): RuleSet {
  const listeners = open.filter(({ wanted }) => wanted.family === family && isLedTo(wanted));
  const withNodePort = listeners.filter(({ wanted }) => wanted.nodePort !== 0);
  const chains: Chain[] = [
    ...sides.map(({ portals, portOf }): Chain => {
      const rules = listeners.flatMap((listener) => portalRulesOf(listener, portOf(listener)));
      return { table: "nat", name: portals, rules };
    }),
    ...sides.map(({ nodePorts, portOf }): Chain => {
      const rules = withNodePort.flatMap((listener) => nodePortRules(listener, portOf(listener)));
      return { table: "nat", name: nodePorts, rules };
    }),
    { table: "filter", name: nonLocalChain, rules: listeners.flatMap(inputRulesOf) },
  ];
  return { chains, jumps };
}

/** Whether any rule redirects to the listener. False if other Services own its addresses and its node port. */
export function isLedTo({
  addresses,
  nodePort,
}: Pick<OpenListener["wanted"], "addresses" | "nodePort">): boolean {
  return addresses.length > 0 || nodePort !== 0;
}

/** Each jump is inserted at the top of its chain, so the jumps for virtual IPs precede those for node ports. */
const jumps: readonly Jump[] = [
  { table: "nat", from: "PREROUTING", rule: nodePortJump(nodePortChains.fromElsewhere) },
  { table: "nat", from: "OUTPUT", rule: nodePortJump(nodePortChains.fromNode) },
  { table: "nat", from: "PREROUTING", rule: jumpTo("KUBE-PORTALS-CONTAINER", clusterIpsComment) },
  { table: "nat", from: "OUTPUT", rule: jumpTo("KUBE-PORTALS-HOST", clusterIpsComment) },
  { table: "filter", from: "INPUT", rule: jumpTo(nonLocalChain, nonLocalComment) },
];

function jumpTo(chain: string, text: string, ...matches: readonly Match[]): Rule {
  return { matches: [...matches, { kind: "comment", text }], target: { kind: "jump", chain } };
}

function nodePortJump(chain: string): Rule {
  const local = { kind: "address-type", end: "dst", type: "LOCAL", isNegated: false } as const;
  return jumpTo(chain, nodePortsComment, local);
}

function portalRulesOf({ wanted }: OpenListener, localPort: number): readonly Rule[] {
  return wanted.addresses.flatMap((address) => {
    const cidr = `${address}/${hostPrefixLength(wanted.family)}`;
    const destination: Match = { kind: "destination", cidr, isNegated: false };
    const matches = [destination, ...portMatches(wanted, wanted.port)];
    return redirects(clientNetworks(wanted.servicePort, address), matches, localPort);
  });
}

function nodePortRules({ wanted }: OpenListener, localPort: number): readonly Rule[] {
  const networks = wanted.isNodePortRestricted ? wanted.servicePort.sourceRanges : none;
  return redirects(networks, portMatches(wanted, wanted.nodePort), localPort);
}

/**
 * The client networks that may reach an address. Load-balancer IPs are restricted to the source ranges. Empty means all
 * clients.
 */
function clientNetworks(
  { clusterIp, externalIps, loadBalancerIps, sourceRanges }: ServicePort,
  address: IpAddress,
): readonly Cidr[] {
  const isOpen = address === clusterIp || externalIps.includes(address);
  return isOpen || !loadBalancerIps.includes(address) ? none : sourceRanges;
}

/** One rule for each client network, or a single rule for all clients if there are no networks. */
function redirects(
  networks: readonly Cidr[],
  matches: readonly Match[],
  port: number,
): readonly Rule[] {
  const target = { kind: "redirect", port } as const;
  if (networks.length === 0) return [{ matches, target }];
  return networks.map((network) => {
    // iptables-save omits a match for all addresses (prefix length 0).
    if (network.prefixLength === 0) return { matches, target };
    const source: Match = { kind: "source", cidr: cidrText(network), isNegated: false };
    return { matches: [source, ...matches], target };
  });
}

/** Keeps clients from a listener's own port, unless it happens to be the Service's port at a node address. */
function inputRulesOf({ wanted, localPorts }: OpenListener): readonly Rule[] {
  const { port } = localPorts;
  const withState = (state: "NEW" | "DNAT", kind: "accept" | "drop"): Rule => ({
    matches: [...portMatches(wanted, port), { kind: "conntrack-state", states: [state] }],
    target: { kind },
  });
  if (isServedOnNode(wanted, port)) return [withState("NEW", "accept")];
  // Drops only packets in state NEW, so that a program that uses this port after this process has exited still receives
  // its replies.
  return [withState("DNAT", "accept"), withState("NEW", "drop")];
}

function isServedOnNode(
  { addresses, nodePort, port, servicePort }: OpenListener["wanted"],
  localPort: number,
): boolean {
  // Only the redirect rules check source ranges.
  if (servicePort.sourceRanges.length > 0) return false;
  if (localPort === nodePort) return true;
  return localPort === port && addresses.some((address) => address !== servicePort.clusterIp);
}

function portMatches(wanted: OpenListener["wanted"], destination: number): readonly Match[] {
  const protocol = wanted.protocol === "TCP" ? "tcp" : "udp";
  return [
    { kind: "protocol", protocol },
    { kind: "comment", text: wanted.portName },
    { kind: "port", protocol, destination },
  ];
}
