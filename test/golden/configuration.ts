/** The KubeProxyConfiguration of a scenario: the common base with the scenario's own fields. */
import { nodeName } from "./node-set-up.ts";

type Fields = Readonly<Record<string, unknown>>;

const base = {
  apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
  kind: "KubeProxyConfiguration",
  mode: "ipvs",
  hostnameOverride: nodeName,
  bindAddress: "0.0.0.0",
  healthzBindAddress: "127.0.0.1:10256",
  metricsBindAddress: "127.0.0.1:10249",
  clusterCIDR: "10.244.0.0/16,fd00:244::/32",
  conntrack: {
    maxPerCore: 0,
    min: 0,
    tcpEstablishedTimeout: "0s",
    tcpCloseWaitTimeout: "0s",
    udpTimeout: "0s",
    udpStreamTimeout: "0s",
  },
  iptables: { masqueradeBit: 14 },
  ipvs: { scheduler: "rr", minSyncPeriod: "0s", syncPeriod: "10s" },
} as const;

/** The file's text, which is JSON and therefore valid YAML. Nested fields are merged. */
export function configurationText(fields: Fields): string {
  return `${JSON.stringify(merge(base, fields), undefined, 2)}\n`;
}

function merge(under: Fields, over: Fields): Fields {
  const merged: Record<string, unknown> = { ...under };
  for (const [name, value] of Object.entries(over)) {
    const below = merged[name];
    merged[name] = isFields(below) && isFields(value) ? merge(below, value) : value;
  }
  return merged;
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
