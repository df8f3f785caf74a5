/** Tests each check with each of its verdicts. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Status } from "../../../src/answer/answers.ts";
import type { PacketLoss, PathStep } from "../../../src/answer/explanation.ts";
import type { Judgement, Verdict } from "../../../src/doctor/check.ts";
import { checks } from "../../../src/doctor/examine.ts";
import type { Node } from "../../../src/doctor/node.ts";
import {
  addressesWith,
  backendsWith,
  cluster,
  daemonWith,
  ip,
  known,
  nodeWith,
  sysctlsWith,
  tunnel,
  unreadable,
} from "./node.ts";

interface Case {
  readonly check: string;
  readonly verdict: Verdict;
  readonly node: Partial<Node>;
  /** Text that the evidence or the remedy must contain. */
  readonly says: RegExp;
}

const set = { name: "KUBE-CLUSTER-IP", type: "hash:ip,port", references: 1, maxElements: 100 };
const tunnelNodes = { ...set, name: "KUBE-IPVS-NODES", type: "hash:ip", elementCount: 2 };
const skipped = { skipped: "no API server" };
const reuse = "net/ipv4/vs/conn_reuse_mode";
const expire = "net/ipv4/vs/expire_nodest_conn";
const localPorts = "net/ipv4/ip_local_port_range";
const forward = "net/ipv4/ip_forward";
const localnet = "net/ipv4/conf/all/route_localnet";
const many = known({ virtualServers: 50_000, realServers: 250_000, connections: 0 });

/** Packets from one source to default/web. */
function packetsFrom(from: string, ...losses: readonly PacketLoss[]): Node["packets"] {
  return packetsAlong([], from, ...losses);
}

function packetsAlong(
  path: readonly PathStep[],
  from: string,
  ...losses: readonly PacketLoss[]
): Node["packets"] {
  return known([
    {
      ...{ mode: "ipvs", protocol: "TCP", address: "10.96.0.10", port: 80, verdict: "dropped" },
      ...{ summary: "", losers: [], conflicts: [], sourceRanges: [], endpoints: [] },
      service: {
        ...{ namespace: "default", name: "web", frontend: "cluster-ip", trafficPolicy: "Cluster" },
        affinitySeconds: 0,
      },
      packets: [
        {
          ...{ from, source: "192.0.2.1", verdict: "dropped", summary: "" },
          ...{ losses, path, deliveries: [] },
        },
      ],
      differences: [],
      connections: { templates: [], ipvs: [], conntrack: [], isTruncated: false },
    },
  ]);
}

/** The cluster DNS address on node-local DNS's link. */
const nodeLocalDns = { address: ip("10.96.0.10"), prefixLength: 32, link: "nodelocaldns" };

const dropped = { cause: "are dropped by filter INPUT: -j DROP", isCertain: true };

const doubtful: PathStep = {
  ...{ hook: "INPUT", table: "inet fw", chain: "input", rule: "limit drop" },
  ...{ isPlanned: false, isMaybe: true },
};

const cases: readonly Case[] = [
  { check: "packets", verdict: "ok", node: {}, says: /traced packets to 0 destinations/ },
  {
    check: "packets",
    verdict: "ok",
    node: { packets: packetsFrom("this node") },
    says: /to 1 destination: no third-party rule/,
  },
  {
    check: "packets",
    verdict: "fail",
    node: { packets: packetsFrom("this node", dropped) },
    says: /default\/web 10\.96\.0\.10:80 from this node are dropped by filter INPUT: -j DROP/,
  },
  {
    check: "packets",
    verdict: "warn",
    node: { packets: packetsFrom("elsewhere", dropped) },
    says: /from elsewhere are dropped/,
  },
  {
    check: "packets",
    verdict: "warn",
    node: {
      packets: packetsFrom("elsewhere", {
        cause: "are lost: net.ipv6.conf.all.forwarding is 0, so this node forwards nothing",
        isCertain: true,
      }),
    },
    says: /set net\.ipv6\.conf\.all\.forwarding to 1 with sysctl -w/,
  },
  {
    check: "packets",
    verdict: "warn",
    node: { packets: packetsFrom("this node", { ...dropped, isCertain: false }) },
    says: /from this node are dropped/,
  },
  {
    check: "packets",
    verdict: "ok",
    node: { packets: packetsAlong([doubtful], "elsewhere") },
    says: /these rules were not evaluated and may drop or translate packets: inet fw input: limit drop/,
  },
  { check: "packets", verdict: "unknown", node: { packets: unreadable }, says: /EACCES/ },

  {
    check: "rp-filter",
    verdict: "ok",
    node: {},
    says: /strict on eth0; 0 packets dropped since boot, apart from ARP requests/,
  },
  {
    check: "rp-filter",
    verdict: "ok",
    node: { reversePath: known({ strictLinks: [], droppedPackets: 9 }) },
    says: /strict on no interface/,
  },
  {
    check: "rp-filter",
    verdict: "warn",
    node: { reversePath: known({ strictLinks: ["eth0", "eth1"], droppedPackets: 9 }) },
    says: /strict on eth0; eth1; 9 packets dropped since boot.*explain --from CLIENT --in INTERFACE/s,
  },
  { check: "rp-filter", verdict: "unknown", node: { reversePath: unreadable }, says: /EACCES/ },

  { check: "capabilities", verdict: "ok", node: {}, says: /are available/ },
  {
    check: "capabilities",
    verdict: "fail",
    node: { missingCapabilities: known(["NET_RAW"]) },
    says: /missing: NET_RAW/,
  },
  {
    check: "capabilities",
    verdict: "unknown",
    node: { missingCapabilities: unreadable },
    says: /EACCES/,
  },

  { check: "kernel", verdict: "ok", node: {}, says: /6\.1\.0/ },
  { check: "kernel", verdict: "warn", node: { kernelRelease: "5.4.0" }, says: /reuses its port/ },
  { check: "kernel", verdict: "warn", node: { kernelRelease: "4.15.0" }, says: /before 4\.18/ },
  { check: "kernel", verdict: "unknown", node: { kernelRelease: "odd" }, says: /odd/ },

  { check: "ipvs", verdict: "ok", node: {}, says: /^IPVS available: yes – / },
  {
    check: "ipvs",
    verdict: "ok",
    node: { modules: known([{ name: "ip_vs", state: "loadable" }]) },
    says: /^IPVS available: yes, ip_vs will be loaded when kube-ipvs starts – /,
  },
  { check: "ipvs", verdict: "ok", node: { modules: unreadable }, says: /^IPVS available: yes – / },
  {
    check: "ipvs",
    verdict: "fail",
    node: { modules: known([{ name: "ip_vs", state: "missing" }]) },
    says: /^IPVS available: no, the kernel 6\.1\.0-13-amd64 has no ip_vs – /,
  },
  {
    check: "ipvs",
    verdict: "fail",
    node: { modules: known([{ name: "ip_vs", state: "unknown" }]) },
    says: /^IPVS available: no, ip_vs is not loaded and \/lib\/modules is not visible – /,
  },
  {
    check: "ipvs",
    verdict: "unknown",
    node: { modules: known([{ name: "ip_vs", state: "unknown" }]), isBeforeInstall: true },
    says: /^IPVS available: no/,
  },

  { check: "modules", verdict: "ok", node: {}, says: /1 of 2 .* loadable: dummy/ },
  {
    check: "modules",
    verdict: "fail",
    node: { modules: known([{ name: "xt_set", state: "missing" }]) },
    says: /no xt_set.*kubeIpvs\.rules: nftables/,
  },
  ...(
    [
      ["6.12.0-211.el10.x86_64", "dnf install kernel-modules-R kernel-modules-extra-R"],
      ["6.12.43+deb13-amd64", "apt install --reinstall linux-image-R"],
      ["6.1.0-13-cloud-arm64", "apt install --reinstall linux-image-R"],
      ["6.8.0-1021-aws", "apt install linux-modules-R linux-modules-extra-R"],
      ["5.15.0-1045-kvm", "apt install linux-image-generic and reboot"],
      ["6.12.40-talos", "use a version of the operating system"],
      ["6.6.30-flatcar", "use a version of the operating system"],
      ["6.12.43", "install the kernel's extra modules for R"],
    ] as const
  ).map(([kernelRelease, remedy]): Case => {
    return {
      ...{ check: "modules", verdict: "fail" },
      node: { kernelRelease, modules: known([{ name: "dummy", state: "missing" }]) },
      says: new RegExp(
        `no dummy – ${remedy.replaceAll(/\bR\b/g, kernelRelease)}`.replaceAll(/[.+]/g, "\\$&"),
      ),
    };
  }),
  {
    check: "modules",
    verdict: "unknown",
    node: { modules: known([{ name: "xt_set", state: "unknown" }]) },
    says: /mount the node's \/lib\/modules/,
  },

  { check: "modules-folder", verdict: "ok", node: {}, says: /^\/lib\/modules/ },
  {
    check: "modules-folder",
    verdict: "ok",
    node: {
      mounts: known({ isContainer: true, isLockShared: true }),
      modules: known([{ name: "ip_vs", state: "available" }]),
    },
    says: /not needed/,
  },
  {
    check: "modules-folder",
    verdict: "warn",
    node: { mounts: known({ isContainer: true, isLockShared: true }) },
    says: /mount/,
  },
  { check: "modules-folder", verdict: "unknown", node: { mounts: unreadable }, says: /EACCES/ },

  { check: "scheduler", verdict: "ok", node: {}, says: /rr/ },
  {
    check: "scheduler",
    verdict: "fail",
    node: { scheduler: "mh", schedulerProblem: known("there is no ip_vs_mh") },
    says: /modprobe ip_vs_mh/,
  },
  { check: "scheduler", verdict: "unknown", node: { schedulerProblem: unreadable }, says: /EAC/ },

  { check: "network-namespaces", verdict: "ok", node: {}, says: /no other/ },
  {
    check: "network-namespaces",
    verdict: "warn",
    node: { otherNamespaces: known([{ pid: 7, command: "lb", virtualServerCount: 3 }]) },
    says: /3 virtual servers .* process 7 \(lb\)/,
  },
  {
    check: "network-namespaces",
    verdict: "unknown",
    node: { otherNamespaces: unreadable },
    says: /EACCES/,
  },

  { check: "sysctls", verdict: "ok", node: {}, says: /ip_forward is 1/ },
  {
    check: "sysctls",
    verdict: "warn",
    node: { sysctl: sysctlsWith({ "net/ipv4/vs/expire_quiescent_template": "0" }) },
    says: /sysctl -w net\.ipv4\.vs\.expire_quiescent_template=1/,
  },
  {
    check: "sysctls",
    verdict: "fail",
    node: { sysctl: sysctlsWith({ [forward]: "0" }) },
    says: /ip_forward is 0/,
  },
  {
    check: "sysctls",
    verdict: "ok",
    node: { isBeforeInstall: true, sysctl: sysctlsWith({ [forward]: "0" }) },
    says: /kube-ipvs will change net\.ipv4\.ip_forward from 0 to 1/,
  },
  {
    check: "sysctls",
    verdict: "unknown",
    node: { sysctl: sysctlsWith({ "net/ipv4/vs/conntrack": undefined }) },
    says: /no net\.ipv4\.vs\.conntrack/,
  },
  { check: "sysctls", verdict: "unknown", node: { strictARP: true }, says: /arp_ignore/ },

  { check: "sysctls", verdict: "unknown", node: { isTunneling: true }, says: /sloppy_tcp/ },

  { check: "tunnel-forwarding", verdict: "ok", node: {}, says: /tunnelForwarding is off/ },
  {
    check: "tunnel-forwarding",
    verdict: "ok",
    node: { isTunneling: true },
    says: /no Service uses tunnel forwarding/,
  },
  {
    check: "tunnel-forwarding",
    verdict: "fail",
    node: { isTunneling: true, sets: known([tunnelNodes]) },
    says: /no link kube-ipvs-ipip/,
  },
  {
    check: "tunnel-forwarding",
    verdict: "ok",
    node: {
      isTunneling: true,
      sets: known([tunnelNodes]),
      tunnelForwarding: known({
        ...{ links: ["kube-ipvs-ipip"], undelivered: [], connections: 3, unanswered: [] },
        uplinks: new Map([["IPv4", { name: "eth0", mtu: 1500 }]]),
      }),
    },
    says: /3 TCP connections to other nodes; eth0 has MTU 1500, so tunneled IPv4 packets have at most 1480 bytes/,
  },
  {
    check: "tunnel-forwarding",
    verdict: "ok",
    node: {
      isTunneling: true,
      sets: known([{ ...tunnelNodes, name: "KUBE-6-IPVS-NODES", family: "IPv6" }]),
      tunnelForwarding: known({
        ...{ links: ["kube-ipvs-ip6"], undelivered: [], connections: 0, unanswered: [] },
        uplinks: new Map([["IPv6", { name: "eth0", mtu: 1500 }]]),
      }),
    },
    says: /so tunneled IPv6 packets have at most 1460 bytes/,
  },
  {
    check: "tunnel-forwarding",
    verdict: "fail",
    node: {
      isTunneling: true,
      sets: known([tunnelNodes]),
      tunnelForwarding: known({
        ...{ links: ["kube-ipvs-ipip"], undelivered: ["kube-ipvs-ipip"] },
        ...{ connections: 0, unanswered: [], uplinks: new Map() },
      }),
    },
    says: /node ports that arrive through kube-ipvs-ipip are dropped, because no routing rule/,
  },
  {
    check: "tunnel-forwarding",
    verdict: "warn",
    node: {
      isTunneling: true,
      sets: known([tunnelNodes]),
      tunnelForwarding: known({
        ...{ links: ["kube-ipvs-ipip"], undelivered: [], connections: 3, uplinks: new Map() },
        unanswered: [{ realServer: "192.168.10.13:80", connections: 2 }],
      }),
    },
    says: /nodes that do not answer, with the number of connections: 192\.168\.10\.13:80 \(2\)/,
  },

  { check: "conn-reuse-mode", verdict: "ok", node: {}, says: /^1 on Linux 6/ },
  {
    check: "conn-reuse-mode",
    verdict: "warn",
    node: { sysctl: sysctlsWith({ [reuse]: "0" }) },
    says: /conn_reuse_mode=1/,
  },
  {
    check: "conn-reuse-mode",
    verdict: "warn",
    node: { kernelRelease: "5.4.0" },
    says: /conn_reuse_mode=0/,
  },
  {
    check: "conn-reuse-mode",
    verdict: "ok",
    node: { kernelRelease: "5.4.0", sysctl: sysctlsWith({ [reuse]: "0" }) },
    says: /^0 on/,
  },
  {
    check: "conn-reuse-mode",
    verdict: "unknown",
    node: { sysctl: sysctlsWith({ [reuse]: undefined }) },
    says: /has no/,
  },

  { check: "expire-nodest-conn", verdict: "ok", node: {}, says: /is 1/ },
  {
    check: "expire-nodest-conn",
    verdict: "warn",
    node: { sysctl: sysctlsWith({ [expire]: "0" }) },
    says: /sysctl -w net\.ipv4\.vs\.expire_nodest_conn=1/,
  },
  {
    check: "expire-nodest-conn",
    verdict: "unknown",
    node: { sysctl: sysctlsWith({ [expire]: undefined }) },
    says: /load ip_vs/,
  },

  { check: "estimator", verdict: "ok", node: {}, says: /60 servers on 4 processors/ },
  {
    check: "estimator",
    verdict: "ok",
    node: { ipvs: many, sysctl: sysctlsWith({ "net/ipv4/vs/run_estimation": "0" }) },
    says: /disabled/,
  },
  {
    check: "estimator",
    verdict: "warn",
    node: { ipvs: many, cpuCount: 64 },
    says: /packets on that processor wait.*|run_estimation=0/,
  },
  {
    check: "estimator",
    verdict: "warn",
    node: { ipvs: many, cpuCount: 64, kernelRelease: "6.6.1" },
    says: /est_cpulist/,
  },
  { check: "estimator", verdict: "unknown", node: { ipvs: unreadable }, says: /EACCES/ },

  { check: "connection-table", verdict: "ok", node: {}, says: /1000 connections in 2\^12/ },
  {
    check: "connection-table",
    verdict: "warn",
    node: { ipvs: known({ virtualServers: 1, realServers: 1, connections: 120_000 }) },
    says: /conn_tab_bits=17/,
  },
  {
    check: "connection-table",
    verdict: "ok",
    node: {
      ipvs: known({ virtualServers: 1, realServers: 1, connections: 120_000 }),
      sysctl: sysctlsWith({ "net/ipv4/vs/conn_lfactor": "-4" }),
    },
    says: /grows automatically/,
  },
  { check: "connection-table", verdict: "unknown", node: { connTabBits: unreadable }, says: /E/ },

  { check: "local-ports", verdict: "ok", node: {}, says: /32768 to 60999/ },
  {
    check: "local-ports",
    verdict: "warn",
    node: {
      sysctl: sysctlsWith({
        [localPorts]: "1024\t60999",
        "net/ipv4/ip_local_reserved_ports": "8080,30000-31000",
      }),
    },
    says: /ip_local_reserved_ports=8080,30000-31000,30000-32767, or /,
  },
  {
    check: "local-ports",
    verdict: "ok",
    node: {
      sysctl: sysctlsWith({
        [localPorts]: "1024\t60999",
        "net/ipv4/ip_local_reserved_ports": "8080,30000-32767",
      }),
    },
    says: /node ports are reserved/,
  },
  {
    check: "local-ports",
    verdict: "ok",
    node: {
      sysctl: sysctlsWith({ [localPorts]: "30000\t60999" }),
      nodePorts: known([20_000, 22_000]),
    },
    says: /is 30000 to 60999 – $/,
  },
  {
    check: "local-ports",
    verdict: "warn",
    node: {
      sysctl: sysctlsWith({ [localPorts]: "1024\t60999" }),
      nodePorts: known([20_000, 22_000]),
    },
    says: /contains the node ports 20000 to 22000.*ip_local_reserved_ports=20000-22000, or /s,
  },
  {
    check: "local-ports",
    verdict: "warn",
    node: { sysctl: sysctlsWith({ [localPorts]: "1024\t60999" }), nodePorts: unreadable },
    says: /contains the node ports 30000 to 32767/,
  },

  { check: "conntrack", verdict: "ok", node: {}, says: /100 of 1000/ },
  {
    check: "conntrack",
    verdict: "warn",
    node: { sysctl: sysctlsWith({ "net/netfilter/nf_conntrack_count": "800" }) },
    says: /conntrack\.maxPerCore/,
  },
  {
    check: "conntrack",
    verdict: "fail",
    node: { sysctl: sysctlsWith({ "net/netfilter/nf_conntrack_count": "950" }) },
    says: /950 of 1000/,
  },
  {
    check: "conntrack",
    verdict: "unknown",
    node: { sysctl: sysctlsWith({ "net/netfilter/nf_conntrack_max": undefined }) },
    says: /not loaded/,
  },

  { check: "ipset-limits", verdict: "ok", node: {}, says: /0 sets/ },
  {
    check: "ipset-limits",
    verdict: "ok",
    node: { sets: known([{ ...set, name: "OTHER", elementCount: 100 }]) },
    says: /0 sets/,
  },
  {
    check: "ipset-limits",
    verdict: "warn",
    node: { sets: known([{ ...set, elementCount: 85 }]) },
    says: /KUBE-CLUSTER-IP has 85 of 100/,
  },
  {
    check: "ipset-limits",
    verdict: "fail",
    node: { sets: known([{ ...set, elementCount: 100 }]) },
    says: /100 of 100/,
  },
  { check: "ipset-limits", verdict: "unknown", node: { sets: unreadable }, says: /EACCES/ },

  {
    check: "iptables-backends",
    verdict: "ok",
    node: { backends: backendsWith({ nft: { ruleCount: 5 } }) },
    says: /nft has 5 rules, legacy 0/,
  },
  {
    check: "iptables-backends",
    verdict: "warn",
    node: { backends: backendsWith({ nft: { ruleCount: 5 }, legacy: { ruleCount: 2 } }) },
    says: /both apply/,
  },
  {
    check: "iptables-backends",
    verdict: "fail",
    node: {
      backends: backendsWith({ nft: { isInstalled: false }, legacy: { isInstalled: false } }),
    },
    says: /install iptables, or set kubeIpvs.rules: nftables/,
  },
  {
    check: "iptables-backends",
    verdict: "ok",
    node: {
      rulesWriter: async () => "nftables",
      backends: backendsWith({ nft: { isInstalled: false }, legacy: { isInstalled: false } }),
    },
    says: /rules are written with nf_tables/,
  },
  { check: "iptables-backends", verdict: "unknown", node: { backends: unreadable }, says: /E/ },

  {
    check: "leftovers",
    verdict: "ok",
    node: {},
    says: /no iptables mode chains and no nftables mode tables/,
  },
  {
    check: "leftovers",
    verdict: "warn",
    node: { backends: backendsWith({ legacy: { leftoverChainCount: 12 } }) },
    says: /12 chains behind in iptables-legacy/,
  },
  {
    check: "leftovers",
    verdict: "fail",
    node: { nftTables: known(["ip kube-proxy", "ip6 kube-proxy"]) },
    says: /nft delete table ip kube-proxy; nft delete table ip6 kube-proxy/,
  },
  {
    check: "leftovers",
    verdict: "warn",
    node: { backends: backendsWith({ nft: { hasPortals: true } }) },
    says: /userspace mode left chains behind in iptables-nft/,
  },
  {
    check: "leftovers",
    verdict: "ok",
    node: { mode: "userspace", backends: backendsWith({ nft: { hasPortals: true } }) },
    says: /no iptables mode chains and no nftables mode tables/,
  },
  { check: "leftovers", verdict: "unknown", node: { nftTables: unreadable }, says: /EACCES/ },
  {
    check: "leftovers",
    verdict: "ok",
    node: { mode: "iptables", backends: backendsWith({ legacy: { leftoverChainCount: 12 } }) },
    says: /12 chains of this mode/,
  },
  { check: "forwarding", verdict: "ok", node: { mode: "iptables" }, says: /is 1/ },
  {
    check: "forwarding",
    verdict: "fail",
    node: { mode: "iptables", sysctl: sysctlsWith({ [forward]: "0" }) },
    says: /sysctl -w net\.ipv4\.ip_forward=1/,
  },

  {
    check: "route-localnet",
    verdict: "ok",
    node: { mode: "iptables", sysctl: sysctlsWith({ [localnet]: "1" }) },
    says: /route_localnet is 1/,
  },
  {
    check: "route-localnet",
    verdict: "ok",
    node: {
      ...{ mode: "iptables", iptablesLocalhostNodePorts: false },
      sysctl: sysctlsWith({ [localnet]: "0" }),
    },
    says: /node ports are not served at 127\.0\.0\.1/,
  },
  {
    check: "route-localnet",
    verdict: "warn",
    node: { mode: "iptables", sysctl: sysctlsWith({ [localnet]: "0" }) },
    says: /sysctl -w net\.ipv4\.conf\.all\.route_localnet=1, or/,
  },

  { check: "vip-collisions", verdict: "ok", node: {}, says: /or 1 other node,/ },
  {
    check: "vip-collisions",
    verdict: "fail",
    node: { addresses: addressesWith({ virtualIps: [ip("192.168.10.1"), ip("192.168.10.3")] }) },
    says: /192\.168\.10\.1 is a gateway .*; 192\.168\.10\.3 is an address of node node-2/,
  },
  {
    check: "vip-collisions",
    verdict: "fail",
    node: { addresses: addressesWith({ virtualIps: [ip("192.168.10.2"), ip("192.168.10.255")] }) },
    says: /an address of this node; .* the broadcast address of 192/,
  },
  {
    check: "vip-collisions",
    verdict: "warn",
    node: { addresses: addressesWith({ clusterIps: [ip("192.168.10.77")] }) },
    says: /cluster IP 192\.168\.10\.77 is in the node's network/,
  },
  {
    check: "vip-collisions",
    verdict: "warn",
    node: { addresses: addressesWith({ own: [nodeLocalDns] }) },
    says: /node-local DNS listens at 10\.96\.0\.10 on link nodelocaldns.*unboundAddresses: \[10\.96\.0\.10\]/s,
  },
  {
    check: "vip-collisions",
    verdict: "fail",
    node: {
      addresses: addressesWith({
        virtualIps: [ip("10.96.0.10"), ip("192.168.10.1")],
        own: [nodeLocalDns],
      }),
    },
    says: /10\.96\.0\.10 is an address of this node.*192\.168\.10\.1 is a gateway/s,
  },
  { check: "vip-collisions", verdict: "unknown", node: { addresses: unreadable }, says: /E/ },

  { check: "tunnel-mtu", verdict: "ok", node: {}, says: /^1 tunnel; their packets fit/ },
  { check: "tunnel-mtu", verdict: "ok", node: { tunnels: known([]) }, says: /^0 tunnels/ },
  {
    check: "tunnel-mtu",
    verdict: "warn",
    node: { tunnels: known([{ ...tunnel, mtuBytes: 1_451 }]) },
    says: /flannel\.1 \(vxlan\) have up to 1501 bytes .* eth0 carries at most 1500.*ip link set flannel\.1 mtu 1450/s,
  },
  { check: "tunnel-mtu", verdict: "unknown", node: { tunnels: unreadable }, says: /EACCES/ },

  { check: "conflicts", verdict: "ok", node: {}, says: /^every Service is served/ },
  {
    check: "conflicts",
    verdict: "warn",
    node: { daemon: conflictsOf("default/b") },
    says: /^default\/b: TCP 203\.0\.113\.5:80 is served for Service default\/a, which is older \(claimed-by-another-service\)\n?.*/,
  },
  {
    check: "conflicts",
    verdict: "warn",
    node: { daemon: conflictsOf("default/b", "default/c") },
    says: /; default\/c: .*give Service default\/b a different address or port; give Service default\/c a different/s,
  },
  {
    check: "conflicts",
    verdict: "warn",
    node: { daemon: conflictsOf(...Array.from({ length: 100 }, (_, at) => `default/s${at}`)) },
    says: /default\/s4: [^;]*; and 95 more/,
  },
  {
    check: "conflicts",
    verdict: "unknown",
    node: { daemon: known({ skipped: "no kube-ipvs answers" }) },
    says: /no kube-ipvs/,
  },
  { check: "conflicts", verdict: "unknown", node: { daemon: unreadable }, says: /EACCES/ },
  {
    check: "conflicts",
    verdict: "unknown",
    node: { daemon: known({ counts: {} } as unknown as Status) },
    says: /^Cannot use the daemon's answer: .* version differs from this command's/,
  },

  { check: "strict-arp", verdict: "ok", node: {}, says: /MetalLB was not detected/ },
  {
    check: "strict-arp",
    verdict: "ok",
    node: { strictARP: true, cluster: { ...cluster, metalLb: known({ evidence: "seen" }) } },
    says: /is on/,
  },
  {
    check: "strict-arp",
    verdict: "warn",
    node: { cluster: { ...cluster, metalLb: known({ evidence: "MetalLB's pods" }) } },
    says: /ipvs\.strictARP: true/,
  },
  {
    check: "strict-arp",
    verdict: "unknown",
    node: { cluster: { ...cluster, metalLb: unreadable } },
    says: /EACCES/,
  },

  { check: "other-proxy", verdict: "ok", node: {}, says: /kube-ipvs is running/ },
  {
    check: "other-proxy",
    verdict: "ok",
    node: { proxies: known({ isInstanceRunning: false, takenPorts: [] }) },
    says: /no proxy is running/,
  },
  {
    check: "other-proxy",
    verdict: "fail",
    node: {
      proxies: known({ otherProxy: "process 9", isInstanceRunning: false, takenPorts: [] }),
    },
    says: /process 9/,
  },
  {
    check: "other-proxy",
    verdict: "warn",
    node: {
      isBeforeInstall: true,
      proxies: known({ otherProxy: "process 9", isInstanceRunning: false, takenPorts: [] }),
    },
    says: /migrate/,
  },
  {
    check: "other-proxy",
    verdict: "fail",
    node: { proxies: known({ isInstanceRunning: false, takenPorts: [10_256] }) },
    says: /port 10256 is in use/,
  },
  { check: "other-proxy", verdict: "unknown", node: { proxies: unreadable }, says: /EACCES/ },

  { check: "version", verdict: "ok", node: {}, says: /kube-ipvs \d.* is running/ },
  {
    check: "version",
    verdict: "warn",
    node: { daemon: daemonWith("0.1.9") },
    says: /^kube-ipvs 0\.1\.9 is running, but this program is \d.*restart kube-ipvs/,
  },
  { check: "version", verdict: "unknown", node: { daemon: unreadable }, says: /EACCES/ },

  { check: "dead-nodes", verdict: "ok", node: {}, says: /no ready endpoint/ },
  {
    check: "dead-nodes",
    verdict: "warn",
    node: {
      cluster: {
        ...cluster,
        deadNodes: known([{ name: "node-2", readyEndpoints: 2, services: ["default/web"] }]),
      },
    },
    says: /Node node-2 is not ready, but has 2 ready endpoints \(default\/web\).*repair the Node/,
  },
  { check: "dead-nodes", verdict: "unknown", node: { cluster: skipped }, says: /no API/ },

  { check: "clock", verdict: "ok", node: {}, says: /0 s ahead/ },
  {
    check: "clock",
    verdict: "warn",
    node: { cluster: { ...cluster, version: clockAhead(-9_000) } },
    says: /9 s behind/,
  },
  {
    check: "clock",
    verdict: "fail",
    node: { cluster: { ...cluster, version: clockAhead(120_000) } },
    says: /120 s ahead/,
  },
  { check: "clock", verdict: "unknown", node: { cluster: skipped }, says: /no API/ },

  { check: "api-server", verdict: "ok", node: {}, says: /v1\.36\.2/ },
  {
    check: "api-server",
    verdict: "fail",
    node: { cluster: { ...cluster, version: unreadable } },
    says: /EACCES/,
  },
  { check: "api-server", verdict: "unknown", node: { cluster: skipped }, says: /no API/ },
  {
    check: "api-server",
    verdict: "warn",
    node: {
      addresses: addressesWith({ virtualIps: [ip("10.96.0.1")] }),
      cluster: {
        ...cluster,
        version: async () => ({
          ...{ server: "https://10.96.0.1:443", version: "v1.36.2", aheadMs: 0 },
        }),
      },
    },
    says: /this node itself serves 10\.96\.0\.1, so kube-ipvs cannot start after a reboot/,
  },

  { check: "api-rights", verdict: "ok", node: {}, says: /services \(list\)/ },
  {
    check: "api-rights",
    verdict: "fail",
    node: { cluster: { ...cluster, rights: denied("services", "nodes") } },
    says: /denied: services \(watch\), nodes \(watch\)/,
  },
  {
    check: "api-rights",
    verdict: "warn",
    node: { cluster: { ...cluster, rights: denied("events.events.k8s.io") } },
    says: /system:node-proxier/,
  },
  {
    check: "api-rights",
    verdict: "warn",
    node: {
      cluster: {
        ...cluster,
        rights: known([{ resource: "nodes", verb: "patch", isAllowed: false }]),
      },
    },
    says: /denied: nodes \(patch\).*may patch nodes/s,
  },
  {
    check: "api-rights",
    verdict: "unknown",
    node: { cluster: { ...cluster, rights: unreadable } },
    says: /EACCES/,
  },

  { check: "file-descriptors", verdict: "ok", node: {}, says: /1048576 files per process/ },
  {
    check: "file-descriptors",
    verdict: "warn",
    node: { files: known({ limit: 256, open: 1, max: 100 }) },
    says: /ulimit/,
  },
  {
    check: "file-descriptors",
    verdict: "fail",
    node: { files: known({ limit: 4_096, open: 95, max: 100 }) },
    says: /fs\.file-max=200/,
  },
  { check: "file-descriptors", verdict: "unknown", node: { files: unreadable }, says: /EACCES/ },

  { check: "iptables-lock", verdict: "ok", node: {}, says: /not in a container/ },
  {
    check: "iptables-lock",
    verdict: "ok",
    node: { mounts: known({ isContainer: true, isLockShared: true }) },
    says: /is mounted/,
  },
  {
    check: "iptables-lock",
    verdict: "warn",
    node: { mounts: known({ isContainer: true, isLockShared: false }) },
    says: /FileOrCreate/,
  },
  { check: "iptables-lock", verdict: "unknown", node: { mounts: unreadable }, says: /EACCES/ },
];

/** Conflicts in which Services lost an address to another Service. */
function conflictsOf(...services: readonly string[]): Node["daemon"] {
  const conflicts = services.map((service) => ({
    service,
    reason: "claimed-by-another-service",
    message: "TCP 203.0.113.5:80 is served for Service default/a, which is older",
    remedy: `give Service ${service} a different address or port`,
    sinceSeconds: 1,
  }));
  const versions = { program: "0.2.0" };
  return known({ conflicts, counts: { conflicts: conflicts.length }, versions });
}

function clockAhead(aheadMs: number): typeof cluster.version {
  return known({ server: "https://10.0.0.1:6443", version: "v1.36.2", aheadMs });
}

function denied(...resources: readonly string[]): typeof cluster.rights {
  const list = resources.map((resource) => ({ resource, verb: "watch", isAllowed: false }));
  return known([{ resource: "services", verb: "list", isAllowed: true }, ...list]);
}

async function judged(name: string, changed: Partial<Node>): Promise<Judgement> {
  const found = checks.find((check) => check.name === name);
  assert.ok(found !== undefined, name);
  return await found.run(nodeWith(changed));
}

describe("a check", () => {
  for (const { check: name, verdict, node, says } of cases) {
    it(`${name} is ${verdict}: ${says.source}`, async () => {
      const found = await judged(name, node);
      assert.equal(found.verdict, verdict, found.evidence);
      assert.match(`${found.evidence} – ${found.remedy ?? ""}`, says);
    });
  }

  it("has at least one case here", () => {
    const tried = new Set(cases.map(({ check }) => check));
    assert.deepEqual(
      checks.filter(({ name }) => !tried.has(name)),
      [],
    );
  });

  it("names a remedy for each warning and failure", async () => {
    for (const { check: name, verdict, node } of cases) {
      if (verdict !== "warn" && verdict !== "fail") continue;
      const { remedy } = await judged(name, node);
      assert.ok((remedy ?? "") !== "", name);
    }
  });
});
