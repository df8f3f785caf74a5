/** Services on the network of ../packet-paths, and the connections that show whether they work. */
import { connect } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Protocol } from "../../src/base/protocol.ts";
import { guestNamed, node, node2, ownerOf } from "../packet-paths/places.ts";
import type { Outcome } from "../packet-paths/probe.ts";
import type { Station } from "../packet-paths/station.ts";
import { openIn } from "../support/client-traffic.ts";
import {
  type ApiObject,
  endpoint,
  endpointSlice,
  node as nodeObject,
  service,
  servicePort,
} from "../support/objects.ts";

const silenceMs = 1_500;
const healthPort = 10_256;
const healthNodePort = 30_100;

function objectsOf(index: number, place: "local" | "remote", spec = {}): readonly ApiObject[] {
  const name = `s${index}`;
  const nodePort = 30_010 + index;
  const ports = ["TCP", "UDP"].map((protocol) =>
    servicePort({ name: protocol.toLowerCase(), protocol, nodePort }),
  );
  const slicePorts = ["TCP", "UDP"].map((protocol) => ({
    name: protocol.toLowerCase(),
    protocol,
    port: 8080,
  }));
  const nodeName = place === "local" ? "node-1" : "node-2";
  return [
    service({
      name,
      type: "LoadBalancer",
      clusterIps: [`10.96.0.1${index}`],
      ports,
      spec,
      status: { loadBalancer: { ingress: [{ ip: `203.0.113.1${index}` }] } },
    }),
    endpointSlice({
      service: name,
      endpoints: [endpoint(guestNamed(place).addresses.IPv4, { nodeName })],
      ports: slicePorts,
    }),
  ];
}

/** s0 has a local endpoint, s1 a remote one, and s2 a local one with the external traffic policy Local. */
export const objects: readonly ApiObject[] = [
  ...objectsOf(0, "local"),
  ...objectsOf(1, "remote"),
  ...objectsOf(2, "local", { externalTrafficPolicy: "Local", healthCheckNodePort: healthNodePort }),
  nodeObject({ name: "node-2", addresses: [node2.IPv4], podCidrs: ["10.244.2.0/24"] }),
];

export interface Path {
  readonly from: "client" | "pod" | "node";
  readonly address: string;
  readonly port: number;
  readonly protocol?: Protocol;
}

/** For example `local←pod`: the answering place and the source that it saw. */
export type Outcomes = Readonly<Record<string, string>>;

const clusterIp = (index: number): { address: string; port: number } => ({
  address: `10.96.0.1${index}`,
  port: 80,
});
const nodePort = (index: number): { address: string; port: number } => ({
  address: node.IPv4,
  port: 30_010 + index,
});
const balancer = (index: number): { address: string; port: number } => ({
  address: `203.0.113.1${index}`,
  port: 80,
});

const paths: Readonly<Record<string, Path>> = {
  "pod to cluster IP, local endpoint": { from: "pod", ...clusterIp(0) },
  "pod to cluster IP, local endpoint, UDP": { from: "pod", ...clusterIp(0), protocol: "UDP" },
  "pod to cluster IP, remote endpoint": { from: "pod", ...clusterIp(1) },
  "node to cluster IP, local endpoint": { from: "node", ...clusterIp(0) },
  "node to cluster IP, remote endpoint": { from: "node", ...clusterIp(1) },
  "client to node port, local endpoint": { from: "client", ...nodePort(0) },
  "client to node port, remote endpoint": { from: "client", ...nodePort(1) },
  "client to node port, policy Local": { from: "client", ...nodePort(2) },
  "client to load-balancer IP, local endpoint": { from: "client", ...balancer(0) },
  "client to load-balancer IP, remote endpoint": { from: "client", ...balancer(1) },
  "client to load-balancer IP, policy Local": { from: "client", ...balancer(2) },
  "pod to pod on another node": { from: "pod", address: "10.244.2.10", port: 8080 },
};

export function pathNamed(name: string): Path {
  const path = paths[name];
  if (path === undefined) throw new Error(`No path named ${name}`);
  return path;
}

const healthChecks = {
  "health check of the node": healthPort,
  "health check of the Service": healthNodePort,
} as const;

/** Outcomes on a node without other software. */
export const healthy: Outcomes = {
  "pod to cluster IP, local endpoint": "local←pod",
  "pod to cluster IP, local endpoint, UDP": "local←pod",
  "pod to cluster IP, remote endpoint": "remote←pod",
  "node to cluster IP, local endpoint": "local←gateway",
  "node to cluster IP, remote endpoint": "remote←node",
  "client to node port, local endpoint": "local←gateway",
  "client to node port, remote endpoint": "remote←node",
  "client to node port, policy Local": "local←client",
  "client to load-balancer IP, local endpoint": "local←gateway",
  "client to load-balancer IP, remote endpoint": "remote←node",
  "client to load-balancer IP, policy Local": "local←client",
  "pod to pod on another node": "remote←pod",
  "health check of the node": "200",
  "health check of the Service": "200",
};

/** Sends one packet flow along every path. */
export async function outcomesOf(stations: ReadonlyMap<string, Station>): Promise<Outcomes> {
  const sent = Object.entries(paths).map(async ([name, path]) => {
    const { from, address, port, protocol = "TCP" } = path;
    const probe = { protocol, address, port, payloadBytes: 1, answerBytes: 1 };
    const outcome = await stations.get(from)?.probe({ ...probe, timeoutMs: silenceMs });
    return [name, outcome === undefined ? "no station" : textOf(outcome, address)] as const;
  });
  const checked: Promise<readonly [string, string]>[] = [];
  // Only one socket may be opened in another namespace at a time.
  for (const [name, port] of Object.entries(healthChecks)) {
    const { status } = await openIn("client", () => getStatus(port));
    checked.push(status.then((text) => [name, text]));
  }
  return Object.fromEntries(await Promise.all([...sent, ...checked]));
}

function textOf(outcome: Outcome, destination: string): string {
  switch (outcome.kind) {
    case "answer":
      return `${outcome.answer.backend}←${ownerOf(outcome.answer.source, destination)}`;
    case "silence":
      return "dropped";
    case "refused":
      return "refused";
    case "failure":
      return outcome.code;
  }
}

/** Opens the connection, and returns a promise of the HTTP status. */
async function getStatus(port: number): Promise<{ readonly status: Promise<string> }> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const socket = connect({ host: node.IPv4, port });
  socket.on("error", ({ code = "error" }: NodeJS.ErrnoException) =>
    resolve(code === "ECONNREFUSED" ? "refused" : code),
  );
  socket.once("data", (text) => resolve(text.toString().split(" ")[1] ?? ""));
  socket.setTimeout(silenceMs, () => resolve("dropped"));
  socket.write("GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
  // The socket is created in the next turn.
  await nextTurn();
  return { status: promise.finally(() => socket.destroy()) };
}
