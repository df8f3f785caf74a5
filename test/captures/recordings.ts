/** The recorded commands, and the kernel state before each of them. */
import type { IpSetType } from "../../src/state/ip-set.ts";

export interface Recording {
  readonly name: string;
  /** Shell commands that create the state in a new network namespace. */
  readonly before: readonly string[];
  readonly command: string;
}

const web = "ipvsadm -A -t 10.96.0.1:443 -s rr";
const webTarget = "ipvsadm -a -t 10.96.0.1:443 -r 10.244.1.5:6443 -m -w 1";
const dns6 = "ipvsadm -A -u [fd00:96::a]:53 -s rr -p 10800";
const dns6Target = "ipvsadm -a -u [fd00:96::a]:53 -r [fd00:244::5]:5353 -m -w 1";
const hash = "ipvsadm -A -t 10.96.0.2:80 -s mh -b mh-fallback,mh-port";
const flowTuple = "-s 192.0.2.1 -d 10.96.0.10 --sport 4000 --dport 53";
const replyPorts = "--reply-port-src 5353 --reply-port-dst 4000";
const flow = `conntrack -I -p udp ${flowTuple} -r 10.244.1.5 -q 192.0.2.1 ${replyPorts} -t 60`;
const flowTuple6 = "-s fd00::1 -d fd00:96::a --sport 4000 --dport 53";
const flow6 = `conntrack -I -p udp ${flowTuple6} -r fd00:244::5 -q fd00::1 ${replyPorts} -t 60`;
const tcpFlow =
  "conntrack -I -p tcp -s 192.0.2.1 -d 10.96.0.1 --sport 4001 --dport 443 -t 60 --state ESTABLISHED";
/**
 * The lab kernel does not support zones. This recording is made in a network namespace of a machine whose kernel does.
 */
const zoneFlow = `${flow} -w 7`;

const clusterIps =
  "ipset create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536";
const nodePorts = "ipset create KUBE-NODE-PORT-TCP bitmap:port range 0-65535";

/** Entries of every type, as `ipset list` prints them. */
export const entrySamples: readonly {
  readonly name: string;
  readonly type: IpSetType;
  readonly family: "inet" | "inet6";
  readonly entries: readonly string[];
}[] = [
  { name: "addresses", type: "hash:ip", family: "inet", entries: ["10.96.0.1"] },
  { name: "addresses-ipv6", type: "hash:ip", family: "inet6", entries: ["fd00:96::1"] },
  {
    name: "ports-of-addresses",
    type: "hash:ip,port",
    family: "inet",
    entries: ["10.96.0.1,tcp:443", "10.96.0.10,udp:53", "10.96.0.11,sctp:9000"],
  },
  {
    name: "ports-of-addresses-ipv6",
    type: "hash:ip,port",
    family: "inet6",
    entries: ["fd00:96::1,tcp:443"],
  },
  {
    name: "pairs",
    type: "hash:ip,port,ip",
    family: "inet",
    entries: ["10.244.1.5,tcp:8080,10.244.1.5"],
  },
  {
    name: "pairs-ipv6",
    type: "hash:ip,port,ip",
    family: "inet6",
    entries: ["fd00:244::5,tcp:8080,fd00:244::5"],
  },
  {
    name: "networks",
    type: "hash:ip,port,net",
    family: "inet",
    entries: ["203.0.113.5,tcp:443,198.51.100.0/24", "203.0.113.5,tcp:443,198.51.100.7"],
  },
  {
    name: "networks-ipv6",
    type: "hash:ip,port,net",
    family: "inet6",
    entries: ["2001:db8::5,tcp:443,2001:db8:1::/64", "2001:db8::5,tcp:443,2001:db8:2::1"],
  },
  {
    name: "foreign-protocol",
    type: "hash:ip,port",
    family: "inet",
    entries: ["10.96.0.1,udplite:80"],
  },
  { name: "ports", type: "bitmap:port", family: "inet", entries: ["0", "30080", "65535"] },
];

/** Routes with every kind of gateway: one, several, one of the other family, and none. */
const makeRoutes: readonly string[] = [
  "ip link add gate0 type dummy",
  "ip link set gate0 up",
  "ip address add 192.0.2.11/24 dev gate0",
  "ip address add fd00:10::11/64 dev gate0 nodad",
  "ip route add default via 192.0.2.1",
  "ip route add 198.51.100.0/24 nexthop via 192.0.2.2 dev gate0 nexthop dev gate0",
  "ip route add 203.0.113.0/24 via inet6 fd00:10::2 dev gate0",
  "ip route add blackhole 10.99.0.0/16",
  "ip route add default via fd00:10::1",
];

const routeRecordings: readonly Recording[] = [
  { name: "list-routes", before: makeRoutes, command: "ip -4 route show table main" },
  { name: "list-routes-ipv6", before: makeRoutes, command: "ip -6 route show table main" },
];

const makeLink = "ip link add kube-ipvs0 txqueuelen 0 type dummy";
const bind = "ip address add 10.96.0.1/32 dev kube-ipvs0";
const bind6 = "ip address add fd00:96::1/128 dev kube-ipvs0";

/** Recordings by file name. */
export const recordings: Readonly<Record<string, readonly Recording[]>> = {
  ipvs: [
    { name: "resolve-family", before: [], command: "ipvsadm -L -n" },
    { name: "create-virtual-server", before: [], command: web },
    { name: "create-virtual-server-persistent-ipv6", before: [], command: dns6 },
    { name: "create-virtual-server-with-scheduler-flags", before: [], command: hash },
    { name: "create-virtual-server-that-exists", before: [web], command: web },
    {
      name: "create-virtual-server-of-unknown-scheduler",
      before: [],
      command: "ipvsadm -A -t 10.96.0.1:443 -s twos",
    },
    { name: "update-virtual-server", before: [web], command: "ipvsadm -E -t 10.96.0.1:443 -s lc" },
    {
      name: "update-virtual-server-that-is-absent",
      before: [],
      command: "ipvsadm -E -t 10.96.0.1:443 -s lc",
    },
    { name: "remove-virtual-server", before: [web], command: "ipvsadm -D -t 10.96.0.1:443" },
    { name: "create-real-server", before: [web], command: webTarget },
    { name: "create-real-server-ipv6", before: [dns6], command: dns6Target },
    {
      name: "update-real-server",
      before: [web, webTarget],
      command: "ipvsadm -e -t 10.96.0.1:443 -r 10.244.1.5:6443 -m -w 0",
    },
    {
      name: "remove-real-server",
      before: [web, webTarget],
      command: "ipvsadm -d -t 10.96.0.1:443 -r 10.244.1.5:6443",
    },
    {
      name: "list",
      before: [web, webTarget, dns6, dns6Target, hash, "ipvsadm -A -f 7 -s rr"],
      command: "ipvsadm -L -n",
    },
    { name: "read-timeouts", before: [], command: "ipvsadm -L --timeout" },
    { name: "write-timeouts", before: [], command: "ipvsadm --set 900 120 300" },
  ],
  conntrack: [
    {
      name: "list-udp",
      before: [flow, tcpFlow],
      command: "conntrack -L -f ipv4 -p udp",
    },
    { name: "list-udp-ipv6", before: [flow6], command: "conntrack -L -f ipv6 -p udp" },
    { name: "delete-ipv6", before: [flow6], command: `conntrack -D -p udp ${flowTuple6}` },
    { name: "delete", before: [flow], command: `conntrack -D -p udp ${flowTuple}` },
  ],
  "conntrack-zones": [
    { name: "list-udp-with-zone", before: [flow, zoneFlow], command: "conntrack -L -f ipv4 -p udp" },
  ],
  ipset: [
    { name: "create-hash", before: [], command: clusterIps },
    {
      name: "create-hash-ipv6",
      before: [],
      command: "ipset create KUBE-6-SOURCES hash:ip,port,net family inet6 hashsize 1024 maxelem 65536",
    },
    { name: "create-bitmap", before: [], command: nodePorts },
    {
      name: "create-with-another-capacity",
      before: [clusterIps],
      command: "ipset create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 100 -exist",
    },
    {
      name: "add",
      before: [clusterIps],
      command: "ipset add KUBE-CLUSTER-IP 10.96.0.1,tcp:443 -exist",
    },
    {
      name: "add-many",
      before: [
        clusterIps,
        writeEntries("KUBE-CLUSTER-IP", ["10.96.0.1,tcp:443", "10.96.0.10,udp:53"]),
      ],
      command: "ipset restore -exist -file /tmp/entries",
    },
    {
      name: "add-to-a-full-set",
      before: [
        "ipset create KUBE-SMALL hash:ip,port family inet maxelem 64",
        "for port in $(seq 64); do ipset add KUBE-SMALL 10.96.0.1,tcp:$port; done",
        writeEntries("KUBE-SMALL", ["10.96.0.1,tcp:1", "10.96.0.1,tcp:99", "10.96.0.1,tcp:98"]),
      ],
      command: "ipset restore -exist -file /tmp/entries",
    },
    {
      name: "remove",
      before: [clusterIps, "ipset add KUBE-CLUSTER-IP 10.96.0.1,tcp:443"],
      command: "ipset del KUBE-CLUSTER-IP 10.96.0.1,tcp:443 -exist",
    },
    { name: "list-empty", before: [clusterIps], command: "ipset list KUBE-CLUSTER-IP" },
    { name: "list-absent", before: [], command: "ipset list KUBE-CLUSTER-IP" },
    ...entrySamples.map(({ name, type, family, entries }) => ({
      name: `list-${name}`,
      before: [
        type === "bitmap:port"
          ? "ipset create KUBE-TEST bitmap:port range 0-65535"
          : `ipset create KUBE-TEST ${type} family ${family}`,
        ...entries.map((entry) => `ipset add KUBE-TEST ${entry}`),
      ],
      command: "ipset list KUBE-TEST",
    })),
    {
      name: "list-headers",
      before: [clusterIps, "ipset add KUBE-CLUSTER-IP 10.96.0.1,tcp:443", nodePorts],
      command: "ipset list -terse",
    },
    { name: "destroy", before: [clusterIps], command: "ipset destroy KUBE-CLUSTER-IP" },
    {
      name: "destroy-referenced",
      before: [
        clusterIps,
        "iptables -A INPUT -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT",
      ],
      command: "ipset destroy KUBE-CLUSTER-IP",
    },
    {
      name: "swap",
      before: [clusterIps, clusterIps.replace("KUBE-CLUSTER-IP", "OTHER")],
      command: "ipset swap KUBE-CLUSTER-IP OTHER",
    },
  ],
  link: [
    { name: "create", before: [], command: makeLink },
    { name: "create-that-exists", before: [makeLink], command: makeLink },
    { name: "find", before: [makeLink], command: "ip link show kube-ipvs0" },
    { name: "find-absent", before: [], command: "ip link show kube-ipvs0" },
    {
      name: "find-of-another-kind",
      before: ["ip link add kube-ipvs0 type bridge"],
      command: "ip link show kube-ipvs0",
    },
    { name: "find-loopback", before: [], command: "ip link show lo" },
    ...routeRecordings,
    { name: "remove", before: [makeLink], command: "ip link delete kube-ipvs0" },
    { name: "add-address", before: [makeLink], command: bind },
    { name: "add-address-ipv6", before: [makeLink], command: bind6 },
    { name: "add-address-that-exists", before: [makeLink, bind], command: bind },
    {
      name: "remove-address",
      before: [makeLink, bind],
      command: "ip address delete 10.96.0.1/32 dev kube-ipvs0",
    },
    {
      name: "remove-address-that-is-absent",
      before: [makeLink],
      command: "ip address delete 10.96.0.1/32 dev kube-ipvs0",
    },
    {
      name: "list-addresses",
      before: [
        makeLink,
        bind,
        bind6,
        "ip link add tun0 type dummy",
        "ip address add 192.0.2.1 peer 192.0.2.2 dev tun0",
      ],
      command: "ip address show",
    },
  ],
};

/** Returns a shell line that writes input for `ipset restore` to a file. */
function writeEntries(set: string, entries: readonly string[]): string {
  const lines = entries.map((entry) => `echo add ${set} ${entry}`);
  return `{ ${lines.join("; ")}; } | tee /tmp/entries`;
}
