import { type Cidr, familyOf, type IpAddress, type IpFamily } from "../../base/ip.ts";
import { sharedIfEmpty } from "../../base/none.ts";
import type { ServicePortRecord, ServiceRecord } from "../objects.ts";
import type { RefusalReason } from "../refusals.ts";
import { addressAt, cidrAt, isBlank } from "./addresses.ts";
import { tuningAnnotations } from "./annotations.ts";
import {
  choiceAt,
  type DecodeScope,
  fieldOf,
  isAbsent,
  listAt,
  pathOf,
  refusePart,
  refuseWhole,
  timeMsOf,
} from "./fields.ts";
import type { ObjectIdentity } from "./identity.ts";
import { optionalPortAt, portNameAt, portNumberAt, protocolAt } from "./ports.ts";

/** A Service with this label, whatever its value, is another proxy's. */
export const proxyNameLabel = "service.kubernetes.io/service-proxy-name";

/** The API's default of sessionAffinityConfig.clientIP.timeoutSeconds. */
const defaultAffinitySeconds = 10_800;
const longestAffinitySeconds = 86_400;

const typeRule = {
  choices: ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"] as const,
  absent: "ClusterIP",
  reason: "unknown-service-type",
} as const;

const policyRule = {
  choices: ["Cluster", "Local"] as const,
  absent: "Cluster",
  reason: "unknown-traffic-policy",
} as const;

const affinityRule = {
  choices: ["None", "ClientIP"] as const,
  absent: "None",
  reason: "unknown-session-affinity",
} as const;

const ipModeRule = {
  choices: ["VIP", "Proxy"] as const,
  absent: "VIP",
  reason: "unknown-ip-mode",
} as const;

/**
 * Narrows a Service. `undefined` when there is nothing to proxy: another proxy's, headless, ExternalName
 * (none of these is a refusal), or when no cluster IP or no port is usable.
 */
export function decodeService(
  scope: DecodeScope,
  identity: ObjectIdentity,
  object: unknown,
): ServiceRecord | undefined {
  const spec = fieldOf(object, "spec");
  if (isNotOurs(scope, object) || isHeadless(spec)) return undefined;
  const type = choiceAt(scope, fieldOf(spec, "type"), "spec.type", typeRule);
  if (type === undefined || type === "ExternalName") return undefined;
  const clusterIps = clusterIpsOf(scope, spec);
  if (clusterIps.length === 0) return refuseWhole(scope, "no-cluster-ip");
  const ports = portsOf(scope, spec, type);
  if (ports.length === 0) return refuseWhole(scope, "no-usable-port");
  const ranges = sourceRangesOf(scope, spec);
  const annotations = tuningAnnotations(scope, object);
  return {
    name: identity.name,
    createdAtSeconds: Math.floor(
      (timeMsOf(pathOf(object, "metadata", "creationTimestamp")) ?? 0) / 1000,
    ),
    type,
    clusterIps,
    externalIps: externalIpsOf(scope, spec),
    loadBalancerIps: ranges.isClosed ? [] : loadBalancerIpsOf(scope, object),
    sourceRanges: ranges.valid,
    ports,
    affinitySeconds: affinitySecondsOf(scope, spec),
    isExternalPolicyLocal: isPolicyLocal(scope, spec, "externalTrafficPolicy"),
    isInternalPolicyLocal: isPolicyLocal(scope, spec, "internalTrafficPolicy"),
    healthCheckNodePort: optionalPortAt(
      scope,
      fieldOf(spec, "healthCheckNodePort"),
      "spec.healthCheckNodePort",
    ),
    ...(annotations === undefined ? {} : { annotations }),
  };
}

/** The label's presence decides, even with an empty value, unless we are the proxy that it names. */
function isNotOurs({ serviceProxyName }: DecodeScope, object: unknown): boolean {
  return pathOf(object, "metadata", "labels", proxyNameLabel) !== serviceProxyName;
}

function isHeadless(spec: unknown): boolean {
  const clusterIp = fieldOf(spec, "clusterIP");
  return isBlank(clusterIp) || clusterIp === "None";
}

/** One address per family: spec.clusterIPs by the order of spec.ipFamilies, or spec.clusterIP alone. */
function clusterIpsOf(scope: DecodeScope, spec: unknown): readonly IpAddress[] {
  const families = listAt(scope, fieldOf(spec, "ipFamilies"), "spec.ipFamilies");
  const texts = listAt(scope, fieldOf(spec, "clusterIPs"), "spec.clusterIPs");
  if (families.length === 0 || texts.length === 0) {
    const address = clusterIpAt(scope, fieldOf(spec, "clusterIP"), "spec.clusterIP");
    return address === undefined ? [] : [address];
  }
  const byFamily = new Map<IpFamily, IpAddress>();
  for (const [index, family] of families.entries()) {
    if (family !== "IPv4" && family !== "IPv6") {
      refusePart(scope, `spec.ipFamilies[${index}]`, "unknown-ip-family", family);
      continue;
    }
    if (byFamily.has(family) || index >= texts.length) continue;
    const field = `spec.clusterIPs[${index}]`;
    const address = clusterIpAt(scope, texts[index], field);
    if (address === undefined) continue;
    if (familyOf(address) === family) byFamily.set(family, address);
    else refusePart(scope, field, "cluster-ip-family", texts[index]);
  }
  return [...byFamily.values()];
}

function clusterIpAt(scope: DecodeScope, value: unknown, field: string): IpAddress | undefined {
  return addressAt(scope, value, field, "invalid-cluster-ip");
}

function portsOf(
  scope: DecodeScope,
  spec: unknown,
  type: ServiceRecord["type"],
): readonly ServicePortRecord[] {
  const ports: ServicePortRecord[] = [];
  const taken = new Set<string>();
  for (const [index, value] of listAt(scope, fieldOf(spec, "ports"), "spec.ports").entries()) {
    const field = `spec.ports[${index}]`;
    const port = portAt(scope, value, field, type);
    if (port === undefined) continue;
    const byName = `${port.name}/${port.protocol}`;
    const byNumber = `:${port.port}/${port.protocol}`;
    if (taken.has(byName) || taken.has(byNumber)) {
      refusePart(scope, field, "duplicate-port", `${port.name}:${port.port}/${port.protocol}`);
      continue;
    }
    taken.add(byName).add(byNumber);
    ports.push(port);
  }
  return ports.slice();
}

function portAt(
  scope: DecodeScope,
  value: unknown,
  field: string,
  type: ServiceRecord["type"],
): ServicePortRecord | undefined {
  if (typeof value !== "object" || value === null) {
    return refusePart(scope, field, "not-an-object", value);
  }
  const name = portNameAt(scope, fieldOf(value, "name"), `${field}.name`);
  const protocol = protocolAt(scope, fieldOf(value, "protocol"), `${field}.protocol`);
  const port = portNumberAt(scope, fieldOf(value, "port"), `${field}.port`);
  if (name === undefined || protocol === undefined || port === undefined) return undefined;
  return { name, protocol, port, nodePort: nodePortAt(scope, value, `${field}.nodePort`, type) };
}

function nodePortAt(
  scope: DecodeScope,
  port: object,
  field: string,
  type: ServiceRecord["type"],
): number {
  const nodePort = optionalPortAt(scope, fieldOf(port, "nodePort"), field);
  if (nodePort === 0 || type !== "ClusterIP") return nodePort;
  refusePart(scope, field, "node-port-without-type", nodePort);
  return 0;
}

function externalIpsOf(scope: DecodeScope, spec: unknown): readonly IpAddress[] {
  const addresses = new Set<IpAddress>();
  const values = listAt(scope, fieldOf(spec, "externalIPs"), "spec.externalIPs");
  for (const [index, value] of values.entries()) {
    if (isBlank(value)) continue;
    const address = addressAt(scope, value, `spec.externalIPs[${index}]`, "invalid-external-ip");
    if (address !== undefined) addresses.add(address);
  }
  return sharedIfEmpty([...addresses]);
}

/** Addresses that the node answers for; entries with a host name only, or in mode Proxy, are none. */
function loadBalancerIpsOf(scope: DecodeScope, object: unknown): readonly IpAddress[] {
  const addresses = new Set<IpAddress>();
  const list = "status.loadBalancer.ingress";
  const ingress = pathOf(object, ...list.split("."));
  for (const [index, value] of listAt(scope, ingress, list).entries()) {
    const field = `${list}[${index}]`;
    const ip = fieldOf(value, "ip");
    if (isBlank(ip)) continue;
    const ipMode = choiceAt(scope, fieldOf(value, "ipMode"), `${field}.ipMode`, ipModeRule);
    if (ipMode !== "VIP") continue;
    const address = addressAt(scope, ip, `${field}.ip`, "invalid-load-balancer-ip");
    if (address !== undefined) addresses.add(address);
  }
  return sharedIfEmpty([...addresses]);
}

/**
 * `isClosed` when ranges were given and none is valid: an empty list means "no restriction", so what was
 * meant to be restricted would be open to everybody.
 */
function sourceRangesOf(
  scope: DecodeScope,
  spec: unknown,
): { readonly valid: readonly Cidr[]; readonly isClosed: boolean } {
  const list = "spec.loadBalancerSourceRanges";
  const value = fieldOf(spec, "loadBalancerSourceRanges");
  const given = listAt(scope, value, list);
  const valid: Cidr[] = [];
  for (const [index, text] of given.entries()) {
    const range = cidrAt(scope, text, `${list}[${index}]`, "invalid-source-range");
    if (range !== undefined) valid.push(range);
  }
  const isGiven =
    given.some((text) => !isBlank(text)) || !(isAbsent(value) || Array.isArray(value));
  const isClosed = isGiven && valid.length === 0;
  if (isClosed) refusePart(scope, list, "no-valid-source-range", value);
  return { valid: sharedIfEmpty(valid.slice()), isClosed };
}

function affinitySecondsOf(scope: DecodeScope, spec: unknown): number {
  const field = "spec.sessionAffinity";
  const affinity = choiceAt(scope, fieldOf(spec, "sessionAffinity"), field, affinityRule);
  if (affinity !== "ClientIP") return 0;
  const seconds = pathOf(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds");
  if (isAbsent(seconds)) return defaultAffinitySeconds;
  if (isAffinitySeconds(seconds)) return seconds;
  const reason: RefusalReason = "invalid-affinity-timeout";
  refusePart(scope, "spec.sessionAffinityConfig.clientIP.timeoutSeconds", reason, seconds);
  return defaultAffinitySeconds;
}

function isAffinitySeconds(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= longestAffinitySeconds;
}

function isPolicyLocal(scope: DecodeScope, spec: unknown, name: string): boolean {
  return choiceAt(scope, fieldOf(spec, name), `spec.${name}`, policyRule) === "Local";
}
