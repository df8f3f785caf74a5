/**
 * A Service whose EndpointSlice contains one backend. The answering backend shows which EndpointSlice the node has
 * applied.
 */

import { backendPort } from "../../src/e2e/pod/conversation.ts";
import { type Cluster, eventually, kubectl } from "./cluster.ts";
import { apply } from "./proxy.ts";
import { holdConnections, nodeAddresses, shop } from "./shop.ts";

const nodePort = 30_081;
const metadata = { name: "canary", namespace: shop };

/** Longer than kube-ipvs waits for an API server that sends nothing after it was restored from a backup. */
const servingSeconds = 900;

export function canaryService(): object {
  const ports = [{ port: 80, targetPort: backendPort, nodePort }];
  return { apiVersion: "v1", kind: "Service", metadata, spec: { type: "NodePort", ports } };
}

export function backendOn({ nodeNames }: Cluster, index: number): string {
  return `backend-${nodeNames[index]}`;
}

/** Makes a backend the only endpoint. */
export async function pointCanary(cluster: Cluster, backend: string): Promise<void> {
  const path = "jsonpath={.status.podIP}";
  const address = await kubectl(cluster, "-n", shop, "get", "pod", backend, "-o", path);
  if (!address) throw new Error(`${backend} has no address`);
  await apply(cluster, "canary", [
    {
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { ...metadata, labels: { "kubernetes.io/service-name": metadata.name } },
      addressType: "IPv4",
      ports: [{ port: backendPort, protocol: "TCP" }],
      endpoints: [{ addresses: [address], conditions: { ready: true } }],
    },
  ]);
}

/** Waits until only the backend answers on every node. Returns how many seconds it took. */
export async function canaryAnswers(cluster: Cluster, backend: string): Promise<number> {
  const begin = performance.now();
  await eventually(cluster, `${backend} answers at all nodes`, servingSeconds, async () => {
    const targets = (await nodeAddresses(cluster)).map((address) => `${address}:${nodePort}`);
    const answering = await answersOf(cluster, [...targets, ...targets]);
    return answering.length > 0 && answering.every((name) => name === backend);
  });
  return (performance.now() - begin) / 1_000;
}

/** Empty if a target does not answer. */
async function answersOf(cluster: Cluster, targets: readonly string[]): Promise<readonly string[]> {
  try {
    const holder = await holdConnections(cluster, targets);
    return (await holder.end()).map(({ name }) => name);
  } catch {
    return [];
  }
}
