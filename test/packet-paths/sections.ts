/** The sections in the order of the document. */
import { abilities } from "./abilities.ts";
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
    "Each pod has its own link. There are two endpoints: `local` on this node, and `remote` on another node. " +
      "The traffic policy is the internal one for the cluster IP, and the external one for other addresses.",
    "- Policy Cluster masquerades everything except connections from a pod to a cluster IP. The endpoint " +
      "sees the node's address on the link to that endpoint.\n- External policy Local keeps the client's " +
      "address. A process on the node that connects to a virtual IP uses that IP as its source address, " +
      "because the IP is assigned to the node. Pods on this node can reply to it, but pods on other nodes " +
      "cannot.\n- Internal policy Local chooses among local endpoints, and masquerades like Cluster.",
  ],
  paths: pathsOf(matrix.routed, routedSide),
};

const noneLocal: Section = {
  ...grid,
  title: "Policy Local without a local endpoint",
  text: [
    "The only endpoint is on the other node. As in kube-proxy's IPVS mode, the virtual servers get the " +
      "remote endpoints, without masquerading. Pods on this node are served. External clients get replies " +
      "from an address that they did not contact, and drop them. A process on the node is served at a node " +
      "port, because it sends from the node's address. At a virtual IP, it is not served: it sends from that " +
      "IP, and the reply to that IP does not return to this node.",
    "The cluster IP also gets remote endpoints, although its internal policy is Local, because the Service " +
      "is reachable from outside.",
  ],
  paths: pathsOf(matrix.noneLocal, { pod: "pod", services: { Local: "none-local" } }),
};

const noneLocalInternal: Section = {
  ...grid,
  title: "Internal policy Local without a local endpoint, cluster IP only",
  text: [
    'The virtual server has no real servers, so IPVS answers "port unreachable". On the node itself, a UDP ' +
      "send fails immediately with EPERM, because IPVS drops the packet within the system call.",
  ],
  paths: pathsOf(matrix.noneLocalInternal, {
    pod: "pod",
    services: { Local: "none-local-internal" },
  }),
};

const noEndpoints: Section = {
  ...grid,
  title: "No endpoints",
  text: ["For every kind of address, outcomes are the same as in the previous section."],
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
    "The connecting pod is the only endpoint. KUBE-LOOP-BACK masquerades the connection, because the reply " +
      "would otherwise never leave the pod.",
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
    "The only endpoint is a process on the node, at the node's address. Packets from elsewhere are delivered " +
      "without passing POSTROUTING, so the process sees the client even with policy Cluster. Packets from " +
      "the node itself pass POSTROUTING, and are masqueraded unless the policy is Local.",
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
    "The client has two addresses, `client` and `branch`. Source ranges protect only load-balancer IPs. " +
      "There, they also restrict pods and processes on the node. A process is admitted if a range contains " +
      "the node's address, or if the process sends from the node's address. An IP family without any range is " +
      "unrestricted.",
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
    "A process on the node listens on all addresses, including virtual IPs. KUBE-IPVS-FILTER rejects " +
      "connections to this process only at virtual IPs. Node ports are served at the node's addresses, but " +
      "not at virtual IPs or the loopback address.",
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
    "A Service has the node's LAN address as its external IP. The Service gets a virtual server, as in " +
      "kube-proxy, but the address is not bound to kube-ipvs0. The node's own processes, such as an SSH " +
      "server, therefore remain reachable. If the address were bound, the rules in the previous section would " +
      "block connections to these processes.",
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
    "A Service has the address of `node-2` as its external IP. This node never binds or serves that " +
      "address, regardless of the settings. Packets reach `node-2` itself, where port 80 is closed. `node-2` " +
      "is also the node's gateway, but a gateway that is not a Node would be served.",
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
    "Outcomes are the same as for routed pods. SCTP node ports have their own sets, whose entries contain " +
      "an address and a port. In these tests, client and server each bind a single address. A multihomed " +
      "server would announce its other addresses to the client, and IPVS does not translate them.",
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
    "An echo request to a virtual IP does not belong to a Service port, so KUBE-IPVS-FILTER rejects it: `ping` " +
      'prints "Destination port unreachable". The node\'s own address answers.',
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
  text: ["`rp_filter`, which applies only to IPv4, is 1 on every link. This changes no outcomes."],
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
    "`bridged-pod` and the endpoint `bridged` are behind one bridge. `bridge-nf-call-iptables` and " +
      "`bridge-nf-call-ip6tables` are 1. Outcomes are the same as for routed pods.",
  ],
  before: bridgeCalls(1),
  after: bridgeCalls(0),
  paths: pathsOf(matrix.bridgedFiltered, bridgedSide),
};

const bridgedUnfiltered: Section = {
  ...grid,
  title: "Bridged pods, br_netfilter off",
  text: [
    "Both settings are 0. If the client's address is kept, the endpoint's reply to a pod behind the same " +
      "bridge bypasses the node's IP layer. The reply's source is not translated back to the virtual IP, so " +
      "the client drops the reply. This is why Kubernetes requires br_netfilter with bridges. Masqueraded " +
      "connections are not affected.",
  ],
  paths: pathsOf(matrix.bridgedUnfiltered, bridgedSide),
};

/** Sections that run with the suite's configuration, one after another. */
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

/** Sections with their own configuration, or with the previous section's. */
export const variants: readonly Section[] = [
  {
    ...grid,
    title: "masqueradeAll",
    text: [
      "With `iptables.masqueradeAll: true`, connections from pods to cluster IPs are also masqueraded.",
    ],
    configuration: { iptables: { masqueradeAll: true } },
    paths: pathsOf(matrix.masqueradeAll, routedSide),
  },
  {
    ...grid,
    title: "No local-traffic detector",
    text: [
      "Without `clusterCIDR`, only connections whose source is a cluster IP (a process on the node) are " +
        "masqueraded. Local endpoints serve external clients and see their addresses. Replies from remote " +
        "endpoints bypass this node, so clients drop them.",
    ],
    configuration: { clusterCIDR: "" },
    paths: pathsOf(matrix.noDetector, routedSide),
  },
  ...edges,
  ...abilities,
];

/** All sections, in the order in which they run and are printed. */
export const allSections: readonly Section[] = [
  ...withDefaults,
  affinity,
  ...variants,
  withoutParts,
];

/** Returns a section for the matrix of other modes. */
export function sectionNamed(title: string): Section {
  const found = allSections.find((one) => one.title === title);
  if (found === undefined) throw new Error(`No section named ${title}`);
  return found;
}
