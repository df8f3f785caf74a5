/**
 * Rules of network plugins, written from their documentation and sources. The links of routed pods are called veth
 * instead of cali, lxc or eni.
 */
import { restore } from "./restore.ts";

/** The links of the node's routed pods, in the order of `guests` in ../packet-paths/places.ts. */
const podLinks = ["veth0", "veth1", "veth2"];
/** The link of the pod that Calico's policy protects. */
const protectedLink = "veth1";

export interface CalicoSettings {
  /** Matches of packets that the pod `local` accepts. */
  readonly ingress?: readonly string[];
  /** Matches of packets that pods may send. */
  readonly egress?: readonly string[];
  /** `kubeNodePortRanges`. */
  readonly nodePorts?: string;
}

const marked = "-m mark --mark 0x10000/0x10000";

function policyChain(name: string, accepted: readonly string[]): readonly string[] {
  return [
    `-A ${name} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
    `-A ${name} -m conntrack --ctstate INVALID -j DROP`,
    `-A ${name} -j MARK --set-xmark 0x0/0x10000`,
    ...accepted.map((match) => `-A ${name} ${match} -j MARK --set-xmark 0x10000/0x10000`),
    `-A ${name} ${marked} -j RETURN`,
    `-A ${name} -j DROP`,
  ];
}

export const calicoSets: string = `
  ipset create cali40masq hash:net; ipset add cali40masq 10.244.0.0/16
  ipset create cali40all hash:net; ipset add cali40all 10.244.0.0/16
  ipset create cali40this-host hash:ip
  for address in 192.168.10.11 10.244.1.1 10.244.8.1; do ipset add cali40this-host $address; done
`;

/** Felix adds the chains about forwarded packets to INPUT and OUTPUT because kube-ipvs0 exists. */
export function calico({
  ingress = [""],
  egress = [""],
  nodePorts = "30000:32767",
}: CalicoSettings = {}): string {
  const perLink = (chain: string, verdict: (link: string) => string): readonly string[] =>
    podLinks.map((link) => `-A ${chain} ${verdict(link)}`);
  const markOf = (link: string): string => `0x${podLinks.indexOf(link) + 2}00000`;
  return `
${restore("raw", [
  ":cali-PREROUTING",
  "-I PREROUTING -j cali-PREROUTING",
  "-A cali-PREROUTING -j MARK --set-xmark 0x0/0xf0000",
  "-A cali-PREROUTING -i veth+ -j MARK --set-xmark 0x40000/0x40000",
  `-A cali-PREROUTING ${marked} -j ACCEPT`,
])}
${restore("mangle", [
  ...[":cali-PREROUTING", ":cali-POSTROUTING"],
  "-I PREROUTING -j cali-PREROUTING",
  "-I POSTROUTING -j cali-POSTROUTING",
  "-A cali-PREROUTING -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
  `-A cali-PREROUTING ${marked} -j ACCEPT`,
  `-A cali-POSTROUTING ${marked} -j RETURN`,
  "-A cali-POSTROUTING -j MARK --set-xmark 0x0/0xf0000",
])}
${restore("filter", [
  ...[":cali-INPUT", ":cali-FORWARD", ":cali-OUTPUT", ":cali-from-wl-dispatch"],
  ...[":cali-to-wl-dispatch", ":cali-wl-to-host", ":cali-forward-check", ":cali-set-endpoint-mark"],
  ...[":cali-forward-endpoint-mark", ":cali-from-endpoint-mark"],
  ...podLinks.flatMap((link) => [`:cali-fw-${link}`, `:cali-tw-${link}`, `:cali-sm-${link}`]),
  "-I INPUT -j cali-INPUT",
  "-I FORWARD -j cali-FORWARD",
  "-I OUTPUT -j cali-OUTPUT",
  `-A FORWARD ${marked} -j ACCEPT`,
  "-A cali-INPUT -p udp -m udp --dport 4789 -m addrtype --dst-type LOCAL -j DROP",
  "-A cali-INPUT -j MARK --set-xmark 0x0/0xfff00000",
  "-A cali-INPUT -j cali-forward-check",
  "-A cali-INPUT -m mark ! --mark 0x0/0xfff00000 -j RETURN",
  "-A cali-INPUT -i veth+ -g cali-wl-to-host",
  `-A cali-INPUT ${marked} -j ACCEPT`,
  "-A cali-forward-check -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
  ...["tcp", "udp"].map(
    (protocol) =>
      `-A cali-forward-check -p ${protocol} -m multiport --dports ${nodePorts} -m set --match-set cali40this-host dst -g cali-set-endpoint-mark`,
  ),
  "-A cali-forward-check -m set ! --match-set cali40this-host dst -j cali-set-endpoint-mark",
  ...perLink("cali-set-endpoint-mark", (link) => `-i ${link} -g cali-sm-${link}`),
  "-A cali-set-endpoint-mark -i veth+ -j DROP",
  "-A cali-set-endpoint-mark -j MARK --set-xmark 0x100000/0xfff00000",
  ...podLinks.map((link) => `-A cali-sm-${link} -j MARK --set-xmark ${markOf(link)}/0xfff00000`),
  "-A cali-wl-to-host -j cali-from-wl-dispatch",
  "-A cali-wl-to-host -j ACCEPT",
  "-A cali-FORWARD -j MARK --set-xmark 0x0/0xe0000",
  "-A cali-FORWARD -i veth+ -j cali-from-wl-dispatch",
  "-A cali-FORWARD -o veth+ -j cali-to-wl-dispatch",
  `-A cali-OUTPUT ${marked} -j ACCEPT`,
  "-A cali-OUTPUT -m mark ! --mark 0x0/0xfff00000 -g cali-forward-endpoint-mark",
  "-A cali-OUTPUT -o veth+ -j RETURN",
  "-A cali-OUTPUT -j MARK --set-xmark 0x0/0xf0000",
  "-A cali-forward-endpoint-mark -m mark ! --mark 0x100000/0xfff00000 -j cali-from-endpoint-mark",
  "-A cali-forward-endpoint-mark -o veth+ -j cali-to-wl-dispatch",
  "-A cali-forward-endpoint-mark -j MARK --set-xmark 0x0/0xfff00000",
  `-A cali-forward-endpoint-mark ${marked} -j ACCEPT`,
  ...perLink(
    "cali-from-endpoint-mark",
    (link) => `-m mark --mark ${markOf(link)}/0xfff00000 -g cali-fw-${link}`,
  ),
  "-A cali-from-endpoint-mark -j DROP",
  ...perLink("cali-from-wl-dispatch", (link) => `-i ${link} -g cali-fw-${link}`),
  ...perLink("cali-to-wl-dispatch", (link) => `-o ${link} -g cali-tw-${link}`),
  ...podLinks.flatMap((link) => [
    ...policyChain(`cali-fw-${link}`, egress),
    ...policyChain(`cali-tw-${link}`, link === protectedLink ? ingress : [""]),
  ]),
])}
${restore("nat", [
  ...[":cali-POSTROUTING", ":cali-nat-outgoing"],
  "-I POSTROUTING -j cali-POSTROUTING",
  "-A cali-POSTROUTING -j cali-nat-outgoing",
  "-A cali-nat-outgoing -m set --match-set cali40masq src -m set ! --match-set cali40all dst -j MASQUERADE --random-fully",
])}`;
}

/** Cilium's agent without its kube-proxy replacement, its eBPF programs and its proxy. */
export const cilium: string = [
  restore("raw", [
    ...[":CILIUM_PRE_raw", ":CILIUM_OUTPUT_raw"],
    "-I PREROUTING -j CILIUM_PRE_raw",
    "-I OUTPUT -j CILIUM_OUTPUT_raw",
    "-A CILIUM_PRE_raw -m mark --mark 0x200/0xf00 -j CT --notrack",
    "-A CILIUM_OUTPUT_raw -o veth+ -m mark --mark 0xa00/0xfffffeff -j CT --notrack",
    "-A CILIUM_OUTPUT_raw -o veth+ -m mark --mark 0x800/0xe00 -j CT --notrack",
  ]),
  restore("mangle", [
    ...[":CILIUM_PRE_mangle", ":CILIUM_POST_mangle"],
    "-I PREROUTING -j CILIUM_PRE_mangle",
    "-I POSTROUTING -j CILIUM_POST_mangle",
  ]),
  restore("filter", [
    ...[":CILIUM_INPUT", ":CILIUM_FORWARD", ":CILIUM_OUTPUT"],
    "-I INPUT -j CILIUM_INPUT",
    "-I FORWARD -j CILIUM_FORWARD",
    "-I OUTPUT -j CILIUM_OUTPUT",
    "-A CILIUM_INPUT -m mark --mark 0x200/0xf00 -j ACCEPT",
    "-A CILIUM_FORWARD -o cilium_host -j ACCEPT",
    "-A CILIUM_FORWARD -i cilium_host -j ACCEPT",
    "-A CILIUM_FORWARD -i veth+ -j ACCEPT",
    "-A CILIUM_FORWARD -o veth+ -j ACCEPT",
    "-A CILIUM_OUTPUT -m mark --mark 0xa00/0xe00 -j ACCEPT",
    "-A CILIUM_OUTPUT -m mark --mark 0x800/0xe00 -j ACCEPT",
    "-A CILIUM_OUTPUT -m mark ! --mark 0xe00/0xf00 -m mark ! --mark 0xd00/0xf00 -m mark ! --mark 0x400/0xf00 -m mark ! --mark 0xa00/0xe00 -m mark ! --mark 0x800/0xe00 -j MARK --set-xmark 0xc00/0xf00",
  ]),
  restore("nat", [
    ...[":CILIUM_PRE_nat", ":CILIUM_OUTPUT_nat", ":CILIUM_POST_nat"],
    "-I PREROUTING -j CILIUM_PRE_nat",
    "-I OUTPUT -j CILIUM_OUTPUT_nat",
    "-I POSTROUTING -j CILIUM_POST_nat",
    "-A CILIUM_POST_nat -s 10.244.1.0/24 ! -d 10.244.0.0/16 ! -o cilium_+ -j MASQUERADE",
    "-A CILIUM_POST_nat -m mark --mark 0xa00/0xe00 -j ACCEPT",
    "-A CILIUM_POST_nat -s 127.0.0.1/32 -o cilium_host -j SNAT --to-source 10.244.1.1",
    "-A CILIUM_POST_nat -o cilium_host -m mark --mark 0xf00/0xf00 -m conntrack --ctstate DNAT -j SNAT --to-source 10.244.1.1",
  ]),
].join("");

export const flannel: string =
  restore("nat", [
    ":FLANNEL-POSTRTG",
    "-A POSTROUTING -j FLANNEL-POSTRTG",
    "-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -j RETURN",
    "-A FLANNEL-POSTRTG -s 10.244.1.0/24 -d 10.244.0.0/16 -j RETURN",
    "-A FLANNEL-POSTRTG -s 10.244.0.0/16 -d 10.244.1.0/24 -j RETURN",
    "-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.1.0/24 -j RETURN",
    "-A FLANNEL-POSTRTG -s 10.244.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE --random-fully",
    "-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.0.0/16 -j MASQUERADE --random-fully",
  ]) +
  restore("filter", [
    ":FLANNEL-FWD",
    "-A FORWARD -j FLANNEL-FWD",
    "-A FLANNEL-FWD -s 10.244.0.0/16 -j ACCEPT",
    "-A FLANNEL-FWD -d 10.244.0.0/16 -j ACCEPT",
  ]);

/** The pod `local` has its address from a second interface, eth1. */
export const vpcCni: string = `
  ip link add eth1 type veth peer name node-eth1 netns lan
  ip -n lan link set node-eth1 master lan0 up
  ip address add 192.168.10.13/24 dev eth1; ip link set eth1 up
  sysctl -qw net.ipv4.conf.eth0.rp_filter=2
  for pod in 10.244.1.5 10.244.1.10; do ip rule add priority 512 to $pod lookup main; done
  ip rule add priority 1024 fwmark 0x80/0x80 lookup main
  ip rule add priority 1536 from 10.244.1.10 lookup 2
  ip route add default via 192.168.10.1 dev eth1 table 2
${restore("mangle", [
  "-A PREROUTING -i eth0 -m addrtype --dst-type LOCAL --limit-iface-in -j CONNMARK --set-xmark 0x80/0x80",
  "-A PREROUTING -i veth+ -j CONNMARK --restore-mark --nfmask 0x80 --ctmask 0x80",
])}
${restore("nat", [
  ...[":AWS-CONNMARK-CHAIN-0", ":AWS-SNAT-CHAIN-0"],
  "-A PREROUTING -i veth+ -j AWS-CONNMARK-CHAIN-0",
  "-A PREROUTING -j CONNMARK --restore-mark --nfmask 0x80 --ctmask 0x80",
  "-A POSTROUTING -j AWS-SNAT-CHAIN-0",
  ...["192.168.10.0/24", "10.244.0.0/16"].flatMap((network) => [
    `-A AWS-CONNMARK-CHAIN-0 -d ${network} -j RETURN`,
    `-A AWS-SNAT-CHAIN-0 -d ${network} -j RETURN`,
  ]),
  "-A AWS-CONNMARK-CHAIN-0 -j CONNMARK --set-xmark 0x80/0x80",
  "-A AWS-SNAT-CHAIN-0 ! -o vlan+ -m addrtype ! --dst-type LOCAL -j SNAT --to-source 192.168.10.11 --random-fully",
])}`;
