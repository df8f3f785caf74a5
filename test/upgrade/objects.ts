/** A cluster with every kind of Service that has its own kernel state. */
import {
  type ApiObject,
  endpoint,
  endpointSlice,
  node,
  service,
  servicePort,
  slicePort,
} from "../support/objects.ts";

const port = (number: number, more: object = {}): Readonly<Record<string, unknown>> =>
  servicePort({ port: number, ...more });

export const objects: readonly ApiObject[] = [
  node(),
  service(),
  endpointSlice({ endpoints: ["10.244.1.10", "10.244.2.11"] }),
  service({ name: "both", clusterIps: ["10.96.0.11", "fd00:96::11"] }),
  endpointSlice({ name: "both-4", service: "both", endpoints: ["10.244.1.12"] }),
  endpointSlice({ name: "both-6", service: "both", endpoints: ["fd00:244::12"] }),
  service({
    name: "dns",
    clusterIps: ["10.96.0.12"],
    ports: [port(53, { protocol: "UDP", name: "http" })],
    spec: {
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 90 } },
    },
  }),
  endpointSlice({
    name: "dns-4",
    service: "dns",
    endpoints: ["10.244.1.13"],
    ports: [slicePort({ protocol: "UDP" })],
  }),
  service({
    name: "gate",
    type: "LoadBalancer",
    clusterIps: ["10.96.0.13"],
    ports: [port(443, { nodePort: 30_443 })],
    spec: {
      externalTrafficPolicy: "Local",
      loadBalancerSourceRanges: ["203.0.113.0/24", "198.51.100.7/32"],
      healthCheckNodePort: 32_000,
      externalIPs: ["203.0.113.80"],
    },
    status: { loadBalancer: { ingress: [{ ip: "198.51.100.80", ipMode: "VIP" }] } },
  }),
  endpointSlice({
    name: "gate-4",
    service: "gate",
    endpoints: [endpoint("10.244.1.14", { nodeName: "node-1" })],
  }),
  service({ name: "empty", clusterIps: ["10.96.0.14"] }),
];
