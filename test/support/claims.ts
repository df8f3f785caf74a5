/** Services that claim the same address and port in different ways. */
import type { ServiceRecord } from "../../src/api/objects.ts";
import type { ServiceName } from "../../src/base/service-name.ts";
import { type ServerKey, toServerKey } from "../../src/state/virtual-server.ts";
import { ip, portRecord, serviceRecord } from "./records.ts";

/** An address that serves node ports on the node in `planOptions`, so that all kinds of claims can conflict there. */
export const claimedAddress = "192.168.10.11";
export const claimedPort = 30_080;
export const claimedKey: ServerKey = toServerKey(`TCP ${claimedAddress}:${claimedPort}`);

export type Way = "cluster IP" | "node port" | "load-balancer IP" | "external IP";

const fieldsOf: Readonly<Record<Way, Partial<ServiceRecord>>> = {
  "cluster IP": { clusterIps: [ip(claimedAddress)] },
  "node port": { type: "NodePort", ports: [portRecord({ port: 80, nodePort: claimedPort })] },
  "load-balancer IP": { type: "LoadBalancer", loadBalancerIps: [ip(claimedAddress)] },
  "external IP": { externalIps: [ip(claimedAddress)] },
};

/** Each pair of kinds that can conflict at one address, with the owner first. */
export const unequalWays: readonly (readonly [winner: Way, loser: Way])[] = [
  ["cluster IP", "load-balancer IP"],
  ["cluster IP", "external IP"],
  ["node port", "load-balancer IP"],
  ["node port", "external IP"],
  ["load-balancer IP", "external IP"],
];

export const ways: readonly Way[] = ["cluster IP", "node port", "load-balancer IP", "external IP"];

/** A Service that claims {@link claimedKey}. Without a way, the Service does not claim it. */
export function claimant(
  name: ServiceName,
  way: Way | undefined,
  createdAtSeconds: number,
): ServiceRecord {
  const ports = [portRecord({ port: claimedPort })];
  // A different cluster IP for each of a few Services.
  const clusterIps = [ip(`10.96.0.${name.charCodeAt(name.length - 1)}`)];
  const own = { name, createdAtSeconds, clusterIps, ports };
  return serviceRecord(way === undefined ? own : { ...own, ...fieldsOf[way] });
}
