/** The neighbors that write rules, and what they and the settings in docs/neighbors.md do to connections. */
import type { NodeSettings } from "../support/cluster-node.ts";
import { labRules } from "../support/rules-writer.ts";
import {
  docker,
  firewalld,
  firewalldFlush,
  nftFirewalld,
  type UfwSettings,
  ufw,
  ufwReload,
} from "./firewalls.ts";
import { calico, calicoSets, cilium, flannel, vpcCni } from "./network-plugins.ts";
import type { Outcomes } from "./traffic.ts";

export interface Neighbor {
  readonly name: string;
  /** Whether the rules need nf_tables. */
  readonly isNft?: true;
  /** kube-ipvs's configuration. Only used if the neighbor is started before kube-ipvs. */
  readonly configuration?: NodeSettings;
  /** Shell lines that write the neighbor's rules. */
  readonly writes: string;
  /** Outcomes that differ from those on a node without other software. */
  readonly breaks: Outcomes;
  /** As {@link Neighbor.breaks}, if the neighbor is started after kube-ipvs. By default the same. */
  readonly breaksLater?: Outcomes;
  /** A broken path and the rule that drops its packets, according to `explain` and `doctor`. */
  readonly cause?: { readonly path: string; readonly rule: RegExp };
  /** Shell lines, or kube-ipvs's configuration. */
  readonly setting?: string | NodeSettings;
  /** Outcomes that differ after the setting. */
  readonly stillBreaks?: Outcomes;
  /** Shell lines of a reload. */
  readonly reload?: string;
}

const pods = "10.244.0.0/16";
const balancers = "203.0.113.0/24";
const ufwSetting: UfwSettings = {
  forwardPolicy: "ACCEPT",
  allowed: [
    `-s ${pods}`,
    `-d ${balancers}`,
    "-p tcp -m multiport --dports 30000:32767",
    "-p tcp -m tcp --dport 10256",
  ],
};
const firewalldSetting = {
  trusted: [pods],
  allowed: [`-d ${balancers}`, "-p tcp -m tcp --dport 30000:32767", "-p tcp -m tcp --dport 10256"],
};

/** With nf_tables, kube-ipvs cannot accept packets before rules of iptables. */
const isWithIptables = labRules === undefined;

/**
 * A firewall that closes everything from pods and from other machines. Only in iptables can kube-ipvs accept the
 * Service's health checks before the firewall's rules.
 */
function closed(outcome: string, rules: "iptables" | "nftables" = "iptables"): Outcomes {
  const isAccepted = rules === "iptables" && isWithIptables;
  return {
    ...(isAccepted ? {} : { "health check of the Service": outcome }),
    "pod to cluster IP, local endpoint": outcome,
    "pod to cluster IP, local endpoint, UDP": outcome,
    "pod to cluster IP, remote endpoint": outcome,
    "client to node port, local endpoint": outcome,
    "client to node port, remote endpoint": outcome,
    "client to node port, policy Local": outcome,
    "client to load-balancer IP, local endpoint": outcome,
    "client to load-balancer IP, remote endpoint": outcome,
    "client to load-balancer IP, policy Local": outcome,
    "pod to pod on another node": outcome,
    "health check of the node": outcome,
  };
}

/** Connections whose packets the node forwards. */
const forwarded: Outcomes = Object.fromEntries(
  Object.entries(closed("dropped")).filter(([name]) => !name.startsWith("health check")),
);

/**
 * With nf_tables, kube-ipvs reads iptables-nft's rules from the kernel, where it cannot evaluate all matches. It then
 * names an earlier rule and says that it may be wrong.
 */
function ruleNamed(exactly: RegExp, chains: string): RegExp {
  return isWithIptables ? exactly : new RegExp(`filter ${chains}`);
}

const policy = { ingress: ["-s 10.244.1.5/32"] };
const policyOnBalancers: Outcomes = {
  "client to load-balancer IP, local endpoint": "dropped",
  "client to load-balancer IP, policy Local": "dropped",
};

export const neighbors: readonly Neighbor[] = [
  {
    name: "ufw",
    writes: ufw(),
    breaks: closed("dropped"),
    cause: {
      path: "pod to cluster IP, local endpoint",
      rule: ruleNamed(/filter INPUT: policy DROP/, "ufw-"),
    },
    setting: ufwReload(ufwSetting),
    reload: ufwReload({}),
  },
  {
    name: "firewalld with iptables",
    writes: firewalldFlush + firewalld(),
    breaks: closed("refused"),
    cause: { path: "pod to cluster IP, local endpoint", rule: /filter IN_public: .*REJECT/i },
    setting: firewalldFlush + firewalld(firewalldSetting),
    reload: firewalldFlush + firewalld(),
  },
  {
    name: "firewalld with nftables",
    isNft: true,
    writes: firewalldFlush + nftFirewalld(),
    breaks: closed("EHOSTUNREACH", "nftables"),
    cause: {
      path: "pod to cluster IP, local endpoint",
      rule: /inet firewalld filter_IN_public: .*reject/,
    },
    setting: `${firewalldFlush} nft delete table inet firewalld
${nftFirewalld({
  inputZones: [`ip saddr ${pods} accept`],
  allowed: [`ip daddr ${balancers} accept`, "tcp dport { 10256, 30000-32767 } accept"],
  forwardZones: [`ip saddr ${pods} accept`],
})}`,
    reload: `${firewalldFlush} nft delete table inet firewalld\n${nftFirewalld()}`,
  },
  {
    name: "Docker",
    writes: docker(),
    breaks: isWithIptables ? { "pod to pod on another node": "dropped" } : forwarded,
    setting: `iptables -I DOCKER-USER -s ${pods} -j ACCEPT; iptables -I DOCKER-USER -d ${pods} -j ACCEPT`,
    // dockerd moves its jumps to the front.
    reload: `
      iptables -D FORWARD -j DOCKER-ISOLATION-STAGE-1; iptables -I FORWARD -j DOCKER-ISOLATION-STAGE-1
      iptables -D FORWARD -j DOCKER-USER; iptables -I FORWARD -j DOCKER-USER
    `,
  },
  {
    name: "Docker with a published port that is a node port",
    writes: docker({ forwardPolicy: "ACCEPT", published: 30_010, to: "10.244.8.10:8080" }),
    breaks: { "client to node port, local endpoint": "bridged←gateway" },
    // Of two chains at the same hook, the later one is first. Docker's translation then ends the hook.
    breaksLater: {
      "client to node port, local endpoint": isWithIptables ? "bridged←gateway" : "bridged←client",
    },
    setting: `
      iptables -t nat -D DOCKER ! -i docker0 -p tcp --dport 30010 -j DNAT --to-destination 10.244.8.10:8080
      conntrack -F 2> /dev/null
    `,
  },
  { name: "Calico", writes: calicoSets + calico(), breaks: {} },
  {
    name: "Calico with a policy and another range of node ports",
    writes: calicoSets + calico({ ...policy, nodePorts: "31000:32767" }),
    breaks: policyOnBalancers,
    cause: {
      path: "client to load-balancer IP, local endpoint",
      rule: ruleNamed(/filter cali-tw-veth1: .*DROP/i, "cali-"),
    },
    setting: calico({ ...policy, nodePorts: "30000:32767" }).replaceAll(/^-[AI] [A-Z]+ .*\n/gm, ""),
    stillBreaks: {
      ...policyOnBalancers,
      "client to node port, local endpoint": "dropped",
      "client to node port, policy Local": "dropped",
    },
  },
  { name: "Cilium without its replacement of kube-proxy", writes: cilium, breaks: {} },
  { name: "flannel", writes: flannel, breaks: {} },
  {
    name: "AWS VPC CNI with a clusterCIDR",
    configuration: { clusterCIDR: "172.20.0.0/16" },
    writes: vpcCni,
    breaks: {
      "pod to cluster IP, local endpoint": "local←gateway",
      "pod to cluster IP, local endpoint, UDP": "local←gateway",
      "pod to cluster IP, remote endpoint": "remote←node",
    },
    // kube-ipvs then has its default configuration.
    breaksLater: {},
    setting: {
      detectLocalMode: "InterfaceNamePrefix",
      detectLocal: { interfaceNamePrefix: "veth" },
    },
  },
];
