/** DNS records of Services, as Kubernetes' DNS specification defines them. */
import type { Records } from "./dns-message.ts";

export interface Service {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: {
    readonly type?: string;
    readonly externalName?: string;
    readonly clusterIPs?: readonly string[];
  };
}

export interface EndpointSlice {
  readonly metadata: {
    readonly namespace: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly endpoints?:
    | readonly {
        readonly addresses: readonly string[];
        readonly hostname?: string;
        readonly conditions?: { readonly ready?: boolean };
      }[]
    | null;
}

export function recordsOf(services: readonly Service[], slices: readonly EndpointSlice[]): Records {
  const records = new Map<string, string[]>();
  const headless = new Set<string>();
  for (const { metadata, spec } of services) {
    const name = nameOf(metadata.name, metadata.namespace);
    const addresses = (spec.clusterIPs ?? []).filter((address) => address !== "None");
    if (spec.type === "ExternalName") records.set(name, [spec.externalName ?? ""]);
    else records.set(name, addresses);
    if (spec.type !== "ExternalName" && addresses.length === 0) headless.add(name);
  }
  for (const { metadata, endpoints } of slices) {
    const name = nameOf(metadata.labels?.["kubernetes.io/service-name"] ?? "", metadata.namespace);
    if (!headless.has(name)) continue;
    for (const { addresses, hostname, conditions } of endpoints ?? []) {
      if (conditions?.ready === false) continue;
      records.get(name)?.push(...addresses);
      if (hostname !== undefined) records.set(`${hostname}.${name}`, [...addresses]);
    }
  }
  return records;
}

function nameOf(service: string, namespace: string): string {
  return `${service}.${namespace}.svc.cluster.local`;
}
