/** Random Services and Pods that an API server accepts, generated from a seed. Pure. */
import { seededRandom } from "../support/seeds.ts";

export const namespace = "endpoints";
export const nodeNames: readonly string[] = ["west-1", "west-2", "east-1"];

export interface RandomObjects {
  readonly nodes: readonly object[];
  readonly services: readonly object[];
  /** Pods without status. A separate request writes it. */
  readonly pods: readonly object[];
  readonly statuses: readonly object[];
  /** Names of the Pods to delete afterwards. They remain, because no kubelet confirms their termination. */
  readonly deletedPods: readonly string[];
}

type Random = () => number;

const pick = <T>(random: Random, values: readonly T[]): T =>
  values[Math.floor(random() * values.length)] as T;

/** Creates `serviceCount` Services, each with its own 0 to 12 Pods. Every fiftieth Service has 120 Pods. */
export function randomObjects(seed: number, serviceCount: number): RandomObjects {
  const random = seededRandom(seed);
  const services: object[] = [];
  const pods: object[] = [];
  const statuses: object[] = [];
  const deletedPods: string[] = [];
  for (let index = 0; index < serviceCount; index += 1) {
    const app = `app-${index}`;
    services.push(randomService(random, app));
    const count = index % 50 === 0 ? 120 : Math.floor(random() * 13);
    for (let number = 0; number < count; number += 1) {
      const name = `${app}-${number}`;
      pods.push(randomPod(random, name, app));
      statuses.push(randomStatus(random, name, `10.${64 + (index >> 8)}.${index & 255}.${number}`));
      if (random() < 0.1) deletedPods.push(name);
    }
  }
  return { nodes: nodeNames.map(node), services, pods, statuses, deletedPods };
}

function node(name: string): object {
  const zone = name.split("-")[0];
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels: { "topology.kubernetes.io/zone": zone } },
  };
}

function randomService(random: Random, name: string): object {
  const ports = [
    { name: "http", port: 80, targetPort: pick(random, [8080, "web"]), protocol: "TCP" },
    { name: "dns", port: 53, targetPort: pick(random, [5353, "dns"]), protocol: "UDP" },
    { name: "grpc", port: 90, targetPort: 9090, protocol: "TCP", appProtocol: "kubernetes.io/h2c" },
  ];
  const distribution = pick(random, [undefined, undefined, "PreferSameZone", "PreferSameNode"]);
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace, labels: pick(random, [{}, { team: "a" }]) },
    spec: {
      selector: { app: name, ...pick(random, [{}, { track: "stable" }]) },
      ports: ports.slice(0, 1 + Math.floor(random() * ports.length)),
      publishNotReadyAddresses: random() < 0.2,
      ...(random() < 0.2 && { clusterIP: "None" }),
      ...(distribution !== undefined && { trafficDistribution: distribution }),
    },
  };
}

function randomPod(random: Random, name: string, app: string): object {
  const web = { name: "web", containerPort: pick(random, [8080, 8081]), protocol: "TCP" };
  const dns = { name: "dns", containerPort: pick(random, [5353, 5354]), protocol: "UDP" };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace, labels: { app, track: pick(random, ["stable", "canary"]) } },
    spec: {
      nodeName: pick(random, nodeNames),
      tolerations: [{ operator: "Exists" }],
      automountServiceAccountToken: false,
      ...(random() < 0.2 && { hostname: name, subdomain: pick(random, [app, "other"]) }),
      containers: [
        { name: "main", image: "none", ports: pick(random, [[web, dns], [web], [dns], []]) },
      ],
    },
  };
}

function randomStatus(random: Random, name: string, address: string): object {
  const phase = pick(random, ["Running", "Running", "Running", "Pending", "Succeeded", "Failed"]);
  const ready = phase === "Running" && random() < 0.7 ? "True" : "False";
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace },
    status: {
      phase,
      conditions: [{ type: "Ready", status: ready }],
      ...(random() < 0.9 && { podIP: address, podIPs: [{ ip: address }] }),
    },
  };
}
