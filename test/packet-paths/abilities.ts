/** Sections about abilities of docs/tuning.md, with virtual IPs as addresses on kube-ipvs0 and as routes. */
import * as matrix from "./matrix.ts";
import { headings } from "./matrix.ts";
import { type Path, type Section, transports } from "./path.ts";
import { branch } from "./places.ts";
import { announced, type Frontend, ownPort, podPort, type ServiceName } from "./services.ts";

const settings = {
  ignoreRunningKubeProxy: true,
  portRangeMarks: "0x3fff0000",
  unboundAddresses: announced.map((one) => `${one}/${one.includes(":") ? 128 : 32}`),
};
const ipvs = { udpTimeout: "5s" };
const configuration = { kubeIpvs: settings, ipvs };

function toPort(
  labels: readonly [address: string, policy: string, from: string],
  from: string,
  [service, frontend, port]: readonly [ServiceName, Frontend, number],
  expected: string,
): Path {
  return { labels, from, target: { kind: "other-port", service, frontend, port }, expected };
}

/** The rows of routed pods, with a port in the range instead of the Service's own port. */
const inRange: readonly Path[] = matrix
  .pathsOf(
    matrix.routed.filter(([frontend]) => frontend !== "node port"),
    { pod: "pod", services: { Cluster: "ports", Local: "ports-local" } },
  )
  .map((path) => ({
    ...path,
    target: { ...path.target, kind: "other-port", port: podPort } as Path["target"],
  }));

const closed = (from: string, frontend: Frontend, port: number): Path =>
  toPort([frontend, `port ${port}`, from], from, ["ports", frontend, port], "refused");

const restricted: Path = toPort(
  ["load-balancer IP", "source range without the client", "client"],
  "client",
  ["ports-ranges", "load-balancer IP", podPort],
  "silence",
);

const portRanges: Section = {
  title: "Port ranges",
  text: [
    "Clients use a port in the range, and this port is not translated. Outcomes are the same as for routed pods. Other " +
      "ports are closed, node ports have no ranges, and source ranges apply.",
  ],
  ...{ headings, columns: transports, sharesServers: true, configuration },
  paths: [
    ...inRange,
    restricted,
    {
      ...restricted,
      ...{ labels: [...restricted.labels.slice(0, -1), "branch"], source: branch },
      expected: "local←gateway",
    },
    { ...restricted, labels: [...restricted.labels.slice(0, -1), "pod"], from: "pod" },
    ...(["cluster IP", "load-balancer IP"] as const).flatMap((frontend) =>
      ["pod", "node", "client"].map((from) => closed(from, frontend, ownPort)),
    ),
    closed("client", "node port", podPort),
  ],
};

const unbound: Section = {
  title: "Unbound addresses",
  text: [
    "A cluster IP and two load-balancer IPs are in `kubeIpvs.unboundAddresses`, and on another link. The cluster IP is " +
      "not served, and port 80 of the node is closed. The load-balancer IPs are served, but the node's own service " +
      "also answers there. Over UDP, its replies have another source address.",
  ],
  ...{ headings, columns: transports, configuration },
  paths: [
    ...matrix.pathsOf(
      matrix.routed.filter(([frontend]) => frontend === "load-balancer IP"),
      { pod: "pod", services: { Cluster: "unbound", Local: "unbound-local" } },
    ),
    ...["pod", "node", "client"].map(
      (from): Path => ({
        labels: ["cluster IP", "Cluster", from],
        from,
        target: { kind: "service", service: "unbound", frontend: "cluster IP" },
        expected: "refused",
      }),
    ),
    {
      ...toPort(
        ["load-balancer IP", "the node's own service", "client"],
        "client",
        ["unbound", "load-balancer IP", ownPort],
        "node←client",
      ),
      except: matrix.inColumns("UDP", "silence"),
    },
  ],
};

const routes: Section = {
  title: "Virtual IPs as routes",
  text: [
    "With `kubeIpvs.virtualAddresses: routes`, no link has the IPv4 virtual IPs. Outcomes are the same for routed pods, " +
      "port ranges and unbound addresses. A process on the node still sends from the virtual IP: if a local route has " +
      "no preferred source, the kernel uses the packet's destination.",
  ],
  ...{ headings, columns: transports.filter(({ family }) => family === "IPv4") },
  sharesServers: true,
  configuration: { kubeIpvs: { ...settings, virtualAddresses: "routes" }, ipvs },
  paths: [
    ...matrix.pathsOf(matrix.routed, {
      pod: "pod",
      services: { Cluster: "cluster", Local: "local" },
    }),
    ...portRanges.paths.map((path) => ({ ...path, labels: withWord("port range", path.labels) })),
    ...unbound.paths.map((path) => ({ ...path, labels: withWord("unbound", path.labels) })),
  ],
};

/** `port range, load-balancer IP` instead of `load-balancer IP`. */
function withWord(word: string, [address, ...others]: readonly string[]): readonly string[] {
  return [`${word}, ${address}`, ...others];
}

export const abilities: readonly Section[] = [portRanges, unbound, routes];
