import { hostPrefixLength, type IpAddress, type IpFamily } from "../base/ip.ts";
import type { Chain, Jump, Match, Rule, RuleSet } from "../state/rule.ts";
import type { OpenListener } from "./open-listener.ts";

/** Virtual IPs, for packets from elsewhere and for those of this node. */
const portalChains = ["KUBE-PORTALS-CONTAINER", "KUBE-PORTALS-HOST"] as const;
/** Node ports, likewise. */
const nodePortChains = ["KUBE-NODEPORT-CONTAINER", "KUBE-NODEPORT-HOST"] as const;
/** Lets redirected packets in where INPUT would drop them. */
const nonLocalChain = "KUBE-NODEPORT-NON-LOCAL";

const clusterIpsComment = "handle ClusterIPs; NOTE: this must be before the NodePort rules";
const nodePortsComment = "handle service NodePorts; NOTE: this must be the last rule in the chain";
const nonLocalComment = "Ensure that non-local NodePort traffic can flow";

/**
 * The rules of one family that redirect virtual IPs and node ports to the listeners, in the chains of kube-proxy's
 * first proxy. Of two Services that claim one address and port the first in the order of `open` has it. Pure.
 */
export function portalRules(family: IpFamily, open: readonly OpenListener[]): RuleSet {
  const listeners = open.filter(({ wanted }) => wanted.family === family);
  const portals = listeners.flatMap((listener) =>
    listener.wanted.addresses.map((address) => portalRule(family, listener, address)),
  );
  const nodePorts = listeners.filter(({ wanted }) => wanted.nodePort !== 0).map(nodePortRule);
  const chains: Chain[] = [
    ...portalChains.map((name): Chain => ({ table: "nat", name, rules: portals })),
    ...nodePortChains.map((name): Chain => ({ table: "nat", name, rules: nodePorts })),
    { table: "filter", name: nonLocalChain, rules: listeners.map(acceptRule) },
  ];
  return { chains, jumps };
}

/** The last inserted stands first: virtual IPs come before node ports. */
const jumps: readonly Jump[] = [
  { table: "nat", from: "PREROUTING", rule: nodePortJump("KUBE-NODEPORT-CONTAINER") },
  { table: "nat", from: "OUTPUT", rule: nodePortJump("KUBE-NODEPORT-HOST") },
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

function portalRule(
  family: IpFamily,
  { wanted, localPort }: OpenListener,
  address: IpAddress,
): Rule {
  const cidr = `${address}/${hostPrefixLength(family)}`;
  const { port } = wanted;
  return {
    matches: [
      { kind: "destination", cidr, isNegated: false },
      ...portMatches({ wanted, localPort }, port),
    ],
    target: { kind: "redirect", port: localPort },
  };
}

function nodePortRule(listener: OpenListener): Rule {
  const { wanted, localPort } = listener;
  return {
    matches: portMatches(listener, wanted.nodePort),
    target: { kind: "redirect", port: localPort },
  };
}

function acceptRule(listener: OpenListener): Rule {
  const isNew = { kind: "conntrack-state", states: ["NEW"] } as const;
  return {
    matches: [...portMatches(listener, listener.localPort), isNew],
    target: { kind: "accept" },
  };
}

function portMatches({ wanted }: OpenListener, destination: number): readonly Match[] {
  const protocol = wanted.protocol === "TCP" ? "tcp" : "udp";
  return [
    { kind: "protocol", protocol },
    { kind: "comment", text: wanted.portName },
    { kind: "port", protocol, destination },
  ];
}
