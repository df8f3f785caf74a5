/**
 * Sections with kube-ipvs settings that change the outcomes of kube-proxy's IPVS mode. These sections use all of the
 * settings together, and the earlier sections use none of them.
 */
import { inColumns } from "./matrix.ts";
import { echoes, type Path, type Section, transports } from "./path.ts";
import { type Addresses, branch, node } from "./places.ts";
import { type Frontend, nodePortOf, type ServiceName } from "./services.ts";

const configuration = {
  kubeIpvs: {
    ignoreRunningKubeProxy: true,
    answerPing: true,
    masqueradeNodeToLocal: true,
    strictSourceRanges: true,
    localhostNodePorts: true,
  },
  ipvs: { udpTimeout: "5s" },
};

function serviceRow(
  service: ServiceName,
  label: string,
  frontend: Frontend,
  from: string,
  expected: string,
): Path {
  const target = { kind: "service", service, frontend } as const;
  return { labels: [frontend, label, from], from, target, expected };
}

function fromAddress(path: Path, name: string, source: Addresses): Path {
  return { ...path, labels: [...path.labels.slice(0, -1), name], source };
}

const here = "an endpoint here";
const elsewhere = "endpoints elsewhere";
const outsideRanges = "endpoints elsewhere, source range without the client";

const localFromNode: Section = {
  title: "Policy Local from inside the cluster, with `kubeIpvs.masqueradeNodeToLocal`",
  text: [
    "Connections from the node's own processes to external and load-balancer IPs are masqueraded, so a pod " +
      "on another node can reply if this node has no endpoint. Pods need no masquerading. Connections from " +
      "external clients are not masqueraded, because policy Local keeps their address. Source ranges apply.",
  ],
  headings: ["address", "policy Local", "from"],
  columns: transports,
  configuration,
  paths: [
    ...(["load-balancer IP", "external IP"] as const).flatMap((frontend) => [
      serviceRow("none-local", elsewhere, frontend, "node", "remote←node"),
      serviceRow("none-local", elsewhere, frontend, "pod", "remote←pod"),
      serviceRow("none-local", elsewhere, frontend, "client", "silence"),
      serviceRow("local", here, frontend, "node", "local←gateway"),
      serviceRow("local", here, frontend, "pod", "local←pod"),
      serviceRow("local", here, frontend, "client", "local←client"),
    ]),
    ...(["node", "pod"] as const).map((from) =>
      serviceRow("none-local-ranges", outsideRanges, "load-balancer IP", from, "silence"),
    ),
  ],
};

const strictRanges: Section = {
  title: "Source ranges, with `kubeIpvs.strictSourceRanges`",
  text: [
    "Ranges also apply to node ports, and to processes on the node that connect from the node's own address " +
      "(`node's address`) instead of the virtual IP. Cluster IPs and external IPs remain open.",
  ],
  headings: ["address", "allowed", "from"],
  columns: transports,
  configuration,
  paths: [
    fromAddress(
      serviceRow("ranges", "branch", "node port", "client", "local←gateway"),
      "branch",
      branch,
    ),
    serviceRow("ranges", "branch", "node port", "client", "silence"),
    serviceRow("ranges", "branch", "node port", "pod", "silence"),
    serviceRow("ranges", "branch", "node port", "node", "silence"),
    serviceRow("ranges", "branch", "load-balancer IP", "node", "silence"),
    fromAddress(
      serviceRow("ranges", "branch", "load-balancer IP", "node", "silence"),
      "node's address",
      node,
    ),
    serviceRow("ranges", "branch", "external IP", "client", "local←gateway"),
    serviceRow("ranges-node", "networks of client and node", "node port", "node", "local←gateway"),
    serviceRow(
      "ranges-node",
      "networks of client and node",
      "node port",
      "client",
      "local←gateway",
    ),
    serviceRow("ranges-node", "networks of client and node", "node port", "pod", "silence"),
    serviceRow(
      "ranges-node",
      "networks of client and node",
      "load-balancer IP",
      "node",
      "local←gateway",
    ),
  ],
};

function loopbackRow(
  service: ServiceName,
  label: string,
  expected: string,
  except: NonNullable<Path["except"]> = {},
): Path {
  return {
    labels: ["the loopback address", label, "node"],
    from: "node",
    target: { kind: "loopback", port: nodePortOf(service) },
    expected,
    except,
  };
}

const loopbackNodePorts: Section = {
  title: "Node ports on 127.0.0.1 and ::1, with `kubeIpvs.localhostNodePorts`",
  text: [
    "IPVS drops packets from a loopback address to another host. The proxy itself therefore accepts these " +
      "connections, and connects to the address by which the cluster knows the node. This covers TCP and UDP " +
      "in both IP families. SCTP is rejected, as without this setting. If there are no endpoints, a " +
      "connection is accepted and then reset, and a datagram is lost.",
  ],
  headings: ["address", "traffic policy", "from"],
  columns: transports,
  configuration,
  paths: [
    loopbackRow("cluster", "Cluster", "local←gateway, remote←node"),
    loopbackRow("local", "Local", "local←node"),
    loopbackRow("none-local", "Local, endpoints elsewhere", "remote←node"),
    loopbackRow("empty", "Cluster, no endpoints", "ECONNRESET", inColumns("UDP", "silence")),
  ],
};

const pings: Section = {
  title: "Ping, with `kubeIpvs.answerPing`",
  text: [
    "The node answers echo requests to the addresses on kube-ipvs0. All other packets are still rejected.",
  ],
  headings: ["address", "from"],
  columns: echoes,
  configuration,
  // Each ping starts a process, which is expensive, so each address is pinged once from each place.
  paths: (
    [
      ["cluster IP", "pod"],
      ["load-balancer IP", "node"],
      ["external IP", "client"],
    ] as const
  ).map(([frontend, from]) => ({
    labels: [frontend, from],
    from,
    target: { kind: "service", service: "cluster", frontend } as const,
    expected: "answered",
  })),
};

export const edges: readonly Section[] = [localFromNode, strictRanges, loopbackNodePorts, pings];
