import { type Cidr, familyOf, type IpAddress, type IpFamily } from "../../base/ip.ts";
import { toServiceName } from "../../base/service-name.ts";
import type { ServicePortRecord, ServiceRecord } from "../objects.ts";
import { addressOf, cidrOf, isBlank } from "./addresses.ts";
import { tuningAnnotations } from "./annotations.ts";
import { choiceIn, readEach, timeMsOf, type Untrusted } from "./fields.ts";
import type { ObjectIdentity } from "./identity.ts";
import { optionalPortIn, portNameIn, portNumberIn, protocolIn } from "./ports.ts";

/** A Service with this label belongs to the proxy that the label names. */
export const proxyNameLabel = "service.kubernetes.io/service-proxy-name";

/** The API's default for sessionAffinityConfig.clientIP.timeoutSeconds. */
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
 * Decodes a Service. Returns `undefined` for another proxy's Service, a headless Service or an ExternalName Service.
 * Reports the Service as invalid and returns `undefined` if no cluster IP or no port is valid.
 */
export function decodeService(
  object: Untrusted,
  identity: ObjectIdentity,
): ServiceRecord | undefined {
  const spec = object.field("spec");
  const metadata = object.field("metadata");
  if (isNotOurs(metadata.field("labels")) || isHeadless(spec)) return undefined;
  const type = choiceIn(spec, "type", typeRule);
  if (type === undefined || type === "ExternalName") return undefined;
  const clusterIps = clusterIpsOf(spec);
  if (clusterIps.length === 0) return object.refuseWhole("no-cluster-ip");
  const ports = portsOf(spec.field("ports"), type);
  if (ports.length === 0) return object.refuseWhole("no-usable-port");
  const ranges = sourceRangesOf(spec.field("loadBalancerSourceRanges"));
  const annotations = tuningAnnotations(metadata.field("annotations"));
  const createdAtMs = timeMsOf(metadata.valueAt("creationTimestamp")) ?? 0;
  return {
    name: toServiceName(identity.name),
    createdAtSeconds: Math.floor(createdAtMs / 1000),
    type,
    clusterIps,
    externalIps: externalIpsOf(spec.field("externalIPs")),
    loadBalancerIps: ranges.isClosed
      ? []
      : loadBalancerIpsOf(object.at("status", "loadBalancer", "ingress")),
    sourceRanges: ranges.valid,
    ports,
    affinitySeconds: affinitySecondsOf(spec),
    isExternalPolicyLocal: isPolicyLocal(spec, "externalTrafficPolicy"),
    isInternalPolicyLocal: isPolicyLocal(spec, "internalTrafficPolicy"),
    healthCheckNodePort: optionalPortIn(spec, "healthCheckNodePort"),
    ...(annotations === undefined ? {} : { annotations }),
  };
}

/** Whether another proxy serves the Service. That is also the case if the label's value is empty. */
function isNotOurs(labels: Untrusted): boolean {
  return labels.valueAt(proxyNameLabel) !== labels.scope.serviceProxyName;
}

function isHeadless(spec: Untrusted): boolean {
  const value = spec.valueAt("clusterIP");
  return isBlank(value) || value === "None";
}

/** One address per family: spec.clusterIPs in the order of spec.ipFamilies, or only spec.clusterIP. */
function clusterIpsOf(spec: Untrusted): readonly IpAddress[] {
  const families = spec.field("ipFamilies").items();
  const texts = spec.field("clusterIPs").items();
  if (families.length === 0 || texts.length === 0) {
    return readEach([spec.field("clusterIP")], clusterIpOf);
  }
  const byFamily = new Map<IpFamily, IpAddress>();
  for (const [index, given] of families.entries()) {
    const { value: family } = given;
    if (family !== "IPv4" && family !== "IPv6") {
      given.refuse("unknown-ip-family");
      continue;
    }
    const text = texts[index];
    if (byFamily.has(family) || text === undefined) continue;
    const address = clusterIpOf(text);
    if (address === undefined) continue;
    if (familyOf(address) === family) byFamily.set(family, address);
    else text.refuse("cluster-ip-family");
  }
  return [...byFamily.values()];
}

function clusterIpOf(given: Untrusted): IpAddress | undefined {
  return addressOf(given, "invalid-cluster-ip");
}

function portsOf(list: Untrusted, type: ServiceRecord["type"]): readonly ServicePortRecord[] {
  const taken = new Set<string>();
  return list.each((given) => {
    const port = portOf(given, type);
    if (port === undefined) return undefined;
    const byName = `${port.name}/${port.protocol}`;
    const byNumber = `:${port.port}/${port.protocol}`;
    if (taken.has(byName) || taken.has(byNumber)) {
      return given.with(`${port.name}${byNumber}`).refuse("duplicate-port");
    }
    taken.add(byName).add(byNumber);
    return port;
  });
}

function portOf(given: Untrusted, type: ServiceRecord["type"]): ServicePortRecord | undefined {
  if (typeof given.value !== "object" || given.value === null) return given.refuse("not-an-object");
  const name = portNameIn(given, "name");
  const protocol = protocolIn(given, "protocol");
  const port = portNumberIn(given, "port");
  if (name === undefined || protocol === undefined || port === undefined) return undefined;
  return { name, protocol, port, nodePort: nodePortOf(given, type) };
}

function nodePortOf(given: Untrusted, type: ServiceRecord["type"]): number {
  const nodePort = optionalPortIn(given, "nodePort");
  if (nodePort === 0 || type !== "ClusterIP") return nodePort;
  given.field("nodePort").refuse("node-port-without-type");
  return 0;
}

function externalIpsOf(list: Untrusted): readonly IpAddress[] {
  return distinct(
    list.each((given) =>
      isBlank(given.value) ? undefined : addressOf(given, "invalid-external-ip"),
    ),
  );
}

/** Addresses for which the node must answer. Skips entries without an address and entries with ipMode Proxy. */
function loadBalancerIpsOf(ingress: Untrusted): readonly IpAddress[] {
  return distinct(
    ingress.each((entry) => {
      const ip = entry.field("ip");
      if (isBlank(ip.value)) return undefined;
      if (choiceIn(entry, "ipMode", ipModeRule) !== "VIP") return undefined;
      return addressOf(ip, "invalid-load-balancer-ip");
    }),
  );
}

function distinct(addresses: readonly IpAddress[]): readonly IpAddress[] {
  return addresses.length < 2 ? addresses : [...new Set(addresses)];
}

/**
 * `isClosed` is true if ranges were specified but none is valid. An empty list would mean "no restriction" and open
 * the Service to everyone.
 */
function sourceRangesOf(list: Untrusted): {
  readonly valid: readonly Cidr[];
  readonly isClosed: boolean;
} {
  const given = list.items();
  const valid = readEach(given, (range) => cidrOf(range, "invalid-source-range"));
  const isGiven =
    given.some(({ value }) => !isBlank(value)) || !(list.isAbsent || Array.isArray(list.value));
  const isClosed = isGiven && valid.length === 0;
  if (isClosed) list.refuse("no-valid-source-range");
  return { valid, isClosed };
}

function affinitySecondsOf(spec: Untrusted): number {
  if (choiceIn(spec, "sessionAffinity", affinityRule) !== "ClientIP") return 0;
  const seconds = spec.at("sessionAffinityConfig", "clientIP", "timeoutSeconds");
  if (isAffinitySeconds(seconds.value)) return seconds.value;
  if (!seconds.isAbsent) seconds.refuse("invalid-affinity-timeout");
  return defaultAffinitySeconds;
}

function isAffinitySeconds(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= longestAffinitySeconds;
}

function isPolicyLocal(spec: Untrusted, name: string): boolean {
  return choiceIn(spec, name, policyRule) === "Local";
}
