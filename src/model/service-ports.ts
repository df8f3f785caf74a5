import type { ServiceRecord } from "../api/objects.ts";
import { type Cidr, familyOf, type IpAddress, type IpFamily } from "../base/ip.ts";
import { none, sharedIfEmpty } from "../base/none.ts";
import type { ServicePort } from "./service-port.ts";

/** A Service's service ports in one family. Empty if there is no cluster IP of that family. Pure. */
export function servicePortsOf(service: ServiceRecord, family: IpFamily): readonly ServicePort[] {
  const clusterIp = service.clusterIps.find((address) => familyOf(address) === family);
  if (clusterIp === undefined) return [];
  const ofFamily = {
    family,
    clusterIp,
    externalIps: ofFamilyIn(service.externalIps, family),
    loadBalancerIps: ofFamilyIn(service.loadBalancerIps, family),
    sourceRanges: effectiveSourceRanges(service.sourceRanges, family),
  };
  return service.ports.map((port) => ({
    ...ofFamily,
    service: service.name,
    portName: port.name,
    protocol: port.protocol,
    port: port.port,
    nodePort: port.nodePort,
    affinitySeconds: service.affinitySeconds,
    isExternalPolicyLocal: service.isExternalPolicyLocal && mayBeExternal(service),
    isInternalPolicyLocal: service.isInternalPolicyLocal,
    healthCheckNodePort: usesHealthCheckPort(service) ? service.healthCheckNodePort : 0,
    createdAtSeconds: service.createdAtSeconds,
    ...(service.manifestOrder === undefined ? {} : { manifestOrder: service.manifestOrder }),
  }));
}

function ofFamilyIn(addresses: readonly IpAddress[], family: IpFamily): readonly IpAddress[] {
  return sharedIfEmpty(addresses.filter((address) => familyOf(address) === family));
}

/** Whether the service port is accessible through a node port, a load-balancer IP or an external IP of this family. */
export function isExternallyAccessible(port: ServicePort): boolean {
  return port.nodePort !== 0 || port.loadBalancerIps.length > 0 || port.externalIps.length > 0;
}

/** Depends on the type, not on the current addresses, like ExternalPolicyLocal in kube-proxy. */
function mayBeExternal(service: ServiceRecord): boolean {
  return service.type !== "ClusterIP" || service.externalIps.length > 0;
}

function usesHealthCheckPort(service: ServiceRecord): boolean {
  return service.type === "LoadBalancer" && service.isExternalPolicyLocal;
}

/** A range with prefix length 0 lifts the restriction for its family, as in kube-proxy since 1.34. */
function effectiveSourceRanges(ranges: readonly Cidr[], family: IpFamily): readonly Cidr[] {
  const ofFamily = ranges.filter((range) => familyOf(range.address) === family);
  return ofFamily.some((range) => range.prefixLength === 0) ? none : sharedIfEmpty(ofFamily);
}
