/** What is tried, in the order of the document. */
import { affinity } from "./affinity.ts";
import { edges } from "./edges.ts";
import { large, largeAnswers } from "./large-packets.ts";
import * as matrix from "./matrix.ts";
import { headings, inColumns, pathsOf } from "./matrix.ts";
import { associations, echoes, type Path, type Section, transports } from "./path.ts";
import { type Addresses, branch, node } from "./places.ts";
import { type Frontend, frontends, nodePortOf, ownPort, type ServiceName } from "./services.ts";
import { withoutParts } from "./without.ts";

const clients = ["pod", "node", "client"] as const;
const virtual = frontends.filter((frontend) => frontend !== "node port");
const routedSide = { pod: "pod", services: { Cluster: "cluster", Local: "local" } } as const;
const grid = { headings, columns: transports } as const;

function toService(service: ServiceName, frontend: Frontend): Path["target"] {
  return { kind: "service", service, frontend };
}

const routed: Section = {
  ...grid,
  title: "Routed pods",
  text: [
    "Each pod has a link of its own. Two endpoints: `local` on this node, `remote` on another. The traffic policy is " +
      "the internal one for the cluster IP, the external one for the rest.",
    "- Policy Cluster masquerades whatever is not sent from a pod to a cluster IP: an endpoint sees the node's address " +
      "on the link through which it is reached.\n" +
      "- External policy Local keeps the client's address. A process of the node that connects to a virtual IP has " +
      "that very address, since it is the node's own; its pods find the way back, other nodes would not.\n" +
      "- Internal policy Local chooses among local endpoints, and masquerades as Cluster does.",
  ],
  paths: pathsOf(matrix.routed, routedSide),
};

const noneLocal: Section = {
  ...grid,
  title: "Policy Local without a local endpoint",
  text: [
    "The only endpoint is on the other node. As upstream's IPVS mode, and unlike its others, the virtual servers then " +
      "get the remote endpoints, without masquerading: pods of this node go on. Clients outside get the answer from an " +
      "address that they did not ask, and drop it. A process of the node gets through where it has the node's address " +
      "(node port), and not where it has the virtual IP: the other node sends the answer elsewhere.",
    "The cluster IP leaks to remote endpoints too, although its internal policy is Local, because the Service is " +
      "reachable from outside; one that is not refuses (next table).",
  ],
  paths: pathsOf(matrix.noneLocal, { pod: "pod", services: { Local: "none-local" } }),
};

const noneLocalInternal: Section = {
  ...grid,
  title: "Internal policy Local without a local endpoint, cluster IP only",
  text: [
    "A virtual server without real servers: IPVS answers with «port unreachable». On the node itself a UDP send fails " +
      "at once with EPERM, because IPVS drops the packet inside the system call.",
  ],
  paths: pathsOf(matrix.noneLocalInternal, {
    pod: "pod",
    services: { Local: "none-local-internal" },
  }),
};

const noEndpoints: Section = {
  ...grid,
  title: "No endpoints",
  text: ["As above, for every kind of address."],
  paths: pathsOf(matrix.noEndpoints, { pod: "pod", services: { Cluster: "empty" } }),
};

const hairpinCases: readonly (readonly [from: string, policy: string, ServiceName])[] = [
  ["local", "Cluster", "single"],
  ["local", "Local", "single-local"],
  ["bridged", "Cluster", "bridged-single"],
];

const hairpin: Section = {
  ...grid,
  title: "A pod that reaches itself",
  text: [
    "The pod that connects is the only endpoint. With its own address as the source its answer would never leave it: " +
      "KUBE-LOOP-BACK masquerades.",
  ],
  paths: frontends.flatMap((frontend) =>
    hairpinCases.map(([from, policy, service]) => ({
      labels: [frontend, policy, from],
      from,
      target: toService(service, frontend),
      expected: `${from}←gateway`,
    })),
  ),
};

const hostNetwork: Section = {
  ...grid,
  title: "An endpoint in the host network",
  text: [
    "The only endpoint is a process of the node at the node's address. What is delivered on the node itself does not " +
      "pass POSTROUTING, so nothing is masqueraded: the process sees the client also under policy Cluster. From the node " +
      "the packet does pass it, and is masqueraded unless the policy is Local.",
  ],
  paths: pathsOf(matrix.hostNetwork, {
    pod: "pod",
    services: { Cluster: "host", Local: "host-local" },
  }),
};

function rangesPath(
  service: ServiceName,
  allowed: string,
  from: string,
  expected: string,
  source?: Addresses,
): Path {
  const target = toService(service, "load-balancer IP");
  const base = { labels: ["load-balancer IP", allowed, from], from, target, expected };
  return source === undefined
    ? base
    : { ...base, labels: ["load-balancer IP", allowed, "branch"], source };
}

const ranges: Section = {
  title: "Source ranges",
  text: [
    "The client has two addresses, `client` and `branch`. Ranges hold for load-balancer IPs only. They hold for pods, " +
      "and for the node itself, which gets through where a range contains its node address; but not for a process that " +
      "chooses the node's own address as its source. A family without a range of its own is open.",
  ],
  headings: ["address", "allowed", "from"],
  columns: transports,
  paths: [
    rangesPath("ranges", "branch", "client", "local←gateway", branch),
    rangesPath("ranges", "branch", "client", "silence"),
    rangesPath("ranges", "branch", "pod", "silence"),
    rangesPath("ranges", "branch", "node", "silence"),
    {
      ...rangesPath("ranges", "branch", "node", "local←gateway"),
      labels: ["load-balancer IP", "branch", "node, from its own address"],
      source: node,
    },
    rangesPath("ranges-node", "networks of client and node", "client", "silence", branch),
    rangesPath("ranges-node", "networks of client and node", "client", "local←gateway"),
    rangesPath("ranges-node", "networks of client and node", "pod", "silence"),
    rangesPath("ranges-node", "networks of client and node", "node", "local←gateway"),
    {
      ...rangesPath("ranges-ipv4", "branch, IPv4 only", "client", "silence"),
      except: inColumns("IPv6", "local←gateway"),
    },
    ...(["cluster IP", "node port", "external IP"] as const).map((frontend) => ({
      labels: [frontend, "branch", "client"],
      from: "client",
      target: toService("ranges", frontend),
      expected: "local←gateway",
    })),
  ],
};

function otherPortPath(
  port: "the node's own service" | "the Service's node port",
  frontend: Frontend,
  from: string,
  expected: string,
): Path {
  const address = frontend === "node port" ? "the node's address" : frontend;
  const number = port === "the node's own service" ? ownPort : nodePortOf("cluster");
  return {
    labels: [address, port, from],
    from,
    target: { kind: "other-port", service: "cluster", frontend, port: number },
    expected,
  };
}

const otherPorts: Section = {
  title: "Ports that no Service has",
  text: [
    "The node has a service of its own that listens on all addresses; a virtual IP is an address of the node. " +
      "KUBE-IPVS-FILTER refuses it there, and there only. Node ports are served on the node's addresses, not on virtual " +
      "IPs, and not on the loopback address.",
  ],
  headings: ["address", "port", "from"],
  columns: transports,
  paths: [
    ...(["client", "node"] as const).map((from) =>
      otherPortPath("the node's own service", "node port", from, `node←${from}`),
    ),
    ...virtual.flatMap((frontend) =>
      clients.flatMap((from) => [
        otherPortPath("the node's own service", frontend, from, "refused"),
        otherPortPath("the Service's node port", frontend, from, "refused"),
      ]),
    ),
    {
      labels: ["the loopback address", "the Service's node port", "node"],
      from: "node",
      target: { kind: "loopback", port: nodePortOf("cluster") },
      expected: "refused",
    },
  ],
};

const nodeAddress: Section = {
  title: "An external IP that is the node's own address",
  text: [
    "A Service names the address of the node in the LAN as its external IP. It has its virtual server, as upstream, and " +
      "is not bound to kube-ipvs0: the node's own service, say an SSH server, is reached there as before. (Bound, it " +
      "would be refused: the table before this one.)",
  ],
  headings: ["address", "port", "from"],
  columns: transports,
  paths: [
    ...clients.map((from) => ({
      labels: ["external IP", "the Service's", from],
      from,
      target: toService("node-address", "external IP"),
      expected: "local←gateway, remote←node",
    })),
    ...(["node", "client"] as const).map(
      (from): Path => ({
        labels: ["external IP", "the node's own service", from],
        from,
        target: {
          kind: "other-port",
          service: "node-address",
          frontend: "external IP",
          port: ownPort,
        },
        expected: `node←${from}`,
      }),
    ),
  ],
};

const otherNodeAddress: Section = {
  title: "An external IP that is another Node's address",
  text: [
    "A Service names the address of `node-2` as its external IP. Whatever is set, this node neither binds nor serves it, " +
      "although it is the node's gateway too, whose address would be served: packets go to `node-2` itself, where port 80 " +
      "is closed.",
  ],
  headings: ["address", "port", "from"],
  columns: transports,
  paths: (["pod", "node"] as const).map((from) => ({
    labels: ["external IP", "the Service's", from],
    from,
    target: toService("other-node-address", "external IP"),
    expected: "refused",
  })),
};

const sctp: Section = {
  title: "SCTP",
  text: [
    "Routed pods, as in the first table: the same outcomes. The node ports of SCTP are in sets of their own, by address " +
      "and port. Each end of an association binds one address; an endpoint that tells its others (multi-homing) would " +
      "tell the client addresses behind the virtual one, which IPVS does not translate.",
  ],
  headings,
  columns: associations,
  paths: pathsOf(
    matrix.routed.filter(([frontend]) => frontend === "cluster IP" || frontend === "node port"),
    { pod: "pod", services: { Cluster: "sctp", Local: "sctp-local" } },
  ),
};

const ping: Section = {
  title: "Ping",
  text: [
    "An echo request to a virtual IP belongs to no port of a Service, so KUBE-IPVS-FILTER refuses it too: `ping` says " +
      "«Destination port unreachable». The node's own address answers.",
  ],
  headings: ["address", "from"],
  columns: echoes,
  paths: frontends.flatMap((frontend) =>
    clients.map((from) => ({
      labels: [frontend === "node port" ? "the node's address" : frontend, from],
      from,
      target: toService("cluster", frontend),
      expected: frontend === "node port" ? "answered" : "refused",
    })),
  ),
};

const reversePath = (value: 0 | 1): string =>
  `for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo ${value} > $file; done`;

const strictReversePath: Section = {
  title: "Strict reverse-path filtering",
  text: [
    "`rp_filter` is 1 on every link of the node: nothing changes. The setting is one of IPv4.",
  ],
  headings,
  columns: transports.filter(({ family }) => family === "IPv4"),
  before: reversePath(1),
  after: reversePath(0),
  paths: pathsOf(matrix.routed, routedSide),
};

const bridgeCalls = (value: 0 | 1): string =>
  `for file in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do echo ${value} > $file; done`;
const bridgedSide = {
  pod: "bridged-pod",
  services: { Cluster: "bridged", Local: "bridged-local" },
} as const;

const bridgedFiltered: Section = {
  ...grid,
  title: "Bridged pods, br_netfilter on",
  text: [
    "`bridged-pod` and the endpoint `bridged` are behind one bridge, and `bridge-nf-call-iptables` and " +
      "`bridge-nf-call-ip6tables` are 1: as routed pods.",
  ],
  before: bridgeCalls(1),
  after: bridgeCalls(0),
  paths: pathsOf(matrix.bridgedFiltered, bridgedSide),
};

const bridgedUnfiltered: Section = {
  ...grid,
  title: "Bridged pods, br_netfilter off",
  text: [
    "Both settings are 0. Where the client's address is kept, the endpoint's answer to a pod behind the same bridge does " +
      "not pass the node's IP layer, so nobody turns its source back into the virtual IP, and the client drops it. This is " +
      "why Kubernetes asks for br_netfilter with bridges. Masqueraded connections are not concerned.",
  ],
  paths: pathsOf(matrix.bridgedUnfiltered, bridgedSide),
};

/** With the configuration of the suite, one after the other. */
export const withDefaults: readonly Section[] = [
  routed,
  sctp,
  noneLocal,
  noneLocalInternal,
  noEndpoints,
  hairpin,
  hostNetwork,
  ranges,
  otherPorts,
  nodeAddress,
  otherNodeAddress,
  ping,
  large,
  largeAnswers,
  strictReversePath,
  bridgedFiltered,
  bridgedUnfiltered,
];

/** Each with a configuration of its own, or that of the one before. */
export const variants: readonly Section[] = [
  {
    ...grid,
    title: "masqueradeAll",
    text: [
      "`iptables.masqueradeAll: true`: a pod that connects to a cluster IP is masqueraded too.",
    ],
    configuration: { iptables: { masqueradeAll: true } },
    paths: pathsOf(matrix.masqueradeAll, routedSide),
  },
  {
    ...grid,
    title: "No local-traffic detector",
    text: [
      "Without `clusterCIDR` only what comes from a cluster IP (a process of the node) is masqueraded. Clients outside " +
        "reach local endpoints, which see them; remote endpoints answer past the node.",
    ],
    configuration: { clusterCIDR: "" },
    paths: pathsOf(matrix.noDetector, routedSide),
  },
  ...edges,
];

/** In the order in which they are run and printed. */
export const allSections: readonly Section[] = [
  ...withDefaults,
  affinity,
  ...variants,
  withoutParts,
];

/** For the matrix of other modes. */
export function sectionNamed(title: string): Section {
  const found = allSections.find((one) => one.title === title);
  if (found === undefined) throw new Error(`No section is called ${title}`);
  return found;
}
