import { familyOf, parseIpAddress } from "../../base/ip.ts";
import { isRecord } from "../../base/is-record.ts";
import { fieldOf, isAbsent } from "../decode/fields.ts";
import type { ResourceKind } from "../source.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * Fills in what an API server would have filled in before it served the object, as far as decoding
 * needs it: namespace, cluster IPs and their families, names of slice ports. What absent means for other
 * fields (type, protocol, affinity, conditions) the decoder knows. Pure; leaves nonsense as it is.
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

/** clusterIP and clusterIPs imply each other, and the addresses imply ipFamilies. */
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

/** Without a kubelet that reports conditions, a Pod with an address is ready. */
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

/** A list with something in it; anything else counts as not given. */
function listOrNone(value: unknown): readonly unknown[] | undefined {
  return Array.isArray(value) && value.length > 0 ? value : undefined;
}

/** Nonsense is called IPv4: the decoder then refuses the address, not its family. */
function familyOfText(text: unknown): string {
  const address = typeof text === "string" ? parseIpAddress(text) : undefined;
  return address === undefined ? "IPv4" : familyOf(address);
}
