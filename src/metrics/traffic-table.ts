/** Traffic metrics by Service and by endpoint, which kubeIpvs.trafficMetrics enables. */
import type { MetricRow } from "./metric-table.ts";

type TrafficField =
  | "connections"
  | "packetsIn"
  | "packetsOut"
  | "bytesIn"
  | "bytesOut"
  | "activeConnections"
  | "inactiveConnections";

export type TrafficRows = Readonly<Record<TrafficField, MetricRow>>;

const serviceLabels = ["namespace", "service", "port", "protocol"] as const;
const endpointLabels = [...serviceLabels, "endpoint"] as const;

export const serviceTrafficRows: TrafficRows = rowsOf("service", serviceLabels);
export const endpointTrafficRows: TrafficRows = rowsOf("endpoint", endpointLabels);

export const trafficCountedRow: MetricRow = {
  name: "kube_ipvs_traffic_counted",
  type: "gauge",
  help: "1 if the kernel counts connections, packets and bytes; 0 if it does not, because net.ipv4.vs.run_estimation=0",
};

/** All traffic metrics, for documentation and tests. */
export const trafficMetricRows: readonly MetricRow[] = [
  ...Object.values(serviceTrafficRows),
  ...Object.values(endpointTrafficRows),
  trafficCountedRow,
];

function rowsOf(subject: "service" | "endpoint", labels: readonly string[]): TrafficRows {
  const per = subject === "service" ? "per Service port" : "per endpoint of a Service port";
  const counter = (name: string, help: string): MetricRow => ({
    name: `kube_ipvs_${subject}_${name}_total`,
    type: "counter",
    help: `${help}, ${per}, as counted by IPVS`,
    labels,
  });
  const gauge = (name: string, help: string): MetricRow => ({
    name: `kube_ipvs_${subject}_${name}`,
    type: "gauge",
    help: `${help}, ${per}`,
    labels,
  });
  return {
    connections: counter("connections", "Connections"),
    packetsIn: counter("incoming_packets", "Packets from clients"),
    packetsOut: counter("outgoing_packets", "Packets to clients"),
    bytesIn: counter("incoming_bytes", "Bytes from clients"),
    bytesOut: counter("outgoing_bytes", "Bytes to clients"),
    activeConnections: gauge("active_connections", "Active connections"),
    inactiveConnections: gauge("inactive_connections", "Inactive connections (including UDP)"),
  };
}
