/** Many Services and Pods that an API server accepts. No kubelet runs the Pods. Pure. */

export const namespace = "many";
export const podsPerService = 5;
const nodeName = "without-kubelet";

/** Nodes first, then Services and Pods without status, then the statuses. */
export function manyPods(services: number): readonly (readonly object[])[] {
  const indexes = Array.from({ length: services }, (_, index) => index);
  const pods = indexes.flatMap((service) =>
    Array.from({ length: podsPerService }, (_, pod) => ({ service, pod })),
  );
  return [
    [
      { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } },
      { apiVersion: "v1", kind: "Node", metadata: { name: nodeName } },
    ],
    [
      ...indexes.map((service) => ({
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: `service-${service}`, namespace },
        spec: { selector: { app: `app-${service}` }, ports: [{ port: 80, targetPort: 8080 }] },
      })),
      ...pods.map(({ service, pod }) => ({
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: podName(service, pod), namespace, labels: { app: `app-${service}` } },
        spec: {
          nodeName,
          tolerations: [{ operator: "Exists" }],
          automountServiceAccountToken: false,
          containers: [{ name: "main", image: "none" }],
        },
      })),
    ],
    pods.map(({ service, pod }) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: podName(service, pod), namespace },
      status: { ...readyStatus, ...addressStatus(service, pod) },
    })),
  ];
}

const readyStatus = {
  phase: "Running",
  conditions: [{ type: "Ready", status: "True" }],
} as const;

function addressStatus(service: number, pod: number): object {
  const ip = `10.${64 + (service >> 8)}.${service & 255}.${pod + 1}`;
  return { podIP: ip, podIPs: [{ ip }] };
}

export function podName(service: number, pod: number): string {
  return `pod-${service}-${pod}`;
}
