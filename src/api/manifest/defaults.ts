import { familyOf, parseIpAddress } from "../../base/ip.ts";
import { isRecord } from "../../base/is-record.ts";
import { fieldOf, isAbsent } from "../decode/fields.ts";
import type { ResourceKind } from "../source.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * Sets the defaults that an API server would set and that decoding needs: namespace, cluster IPs and their families,
 * names of slice ports, and readiness of Pods. The decoder itself handles absent values of other fields (type,
 * protocol, affinity, conditions). Pure. Invalid values remain unchanged.
 */
export function withDefaults(kind: ResourceKind | "pods", object: unknown): unknown {
  if (!isRecord(object)) return object;
  if (kind === "nodes") return object;
  const named = withNamespace(object);
  if (kind === "pods") return withReadiness(named);
  return kind === "services" ? withClusterIps(named) : withPortNames(named);
}

function withNamespace(object: Fields): Fields {
  const metadata = fieldOf(object, "metadata");
  if (!isRecord(metadata) || !isAbsent(fieldOf(metadata, "namespace"))) return object;
  return { ...object, metadata: { ...metadata, namespace: "default" } };
}

/** Derives clusterIP and clusterIPs from each other, and ipFamilies from the addresses. */
function withClusterIps(service: Fields): Fields {
  const spec = fieldOf(service, "spec");
  if (!isRecord(spec)) return service;
  const list = fieldOf(spec, "clusterIPs");
  const single = fieldOf(spec, "clusterIP");
  const clusterIPs = listOrNone(list) ?? (isAbsent(single) || single === "" ? [] : [single]);
  if (clusterIPs.length === 0) return service;
  const clusterIP = isAbsent(single) || single === "" ? clusterIPs[0] : single;
  const ipFamilies = listOrNone(fieldOf(spec, "ipFamilies")) ?? clusterIPs.map(familyOfText);
  return { ...service, spec: { ...spec, clusterIP, clusterIPs, ipFamilies } };
}

/** A Pod without conditions is treated as ready, because no kubelet reports conditions here. */
function withReadiness(pod: Fields): Fields {
  const status = fieldOf(pod, "status");
  if (!isRecord(status) || !isAbsent(fieldOf(status, "conditions"))) return pod;
  return { ...pod, status: { ...status, conditions: [{ type: "Ready", status: "True" }] } };
}

function withPortNames(slice: Fields): Fields {
  const ports = fieldOf(slice, "ports");
  if (!Array.isArray(ports)) return slice;
  const named = ports.map((port: unknown) =>
    isRecord(port) && isAbsent(fieldOf(port, "name")) ? { ...port, name: "" } : port,
  );
  return { ...slice, ports: named };
}

/** Returns non-empty lists. Any other value is treated as absent. */
function listOrNone(value: unknown): readonly unknown[] | undefined {
  return Array.isArray(value) && value.length > 0 ? value : undefined;
}

/** Returns IPv4 for invalid addresses so that the decoder reports the address instead of the family. */
function familyOfText(text: unknown): string {
  const address = typeof text === "string" ? parseIpAddress(text) : undefined;
  return address === undefined ? "IPv4" : familyOf(address);
}
