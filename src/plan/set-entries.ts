import { cidrContains } from "../base/ip.ts";
import { widestNetworks } from "../base/networks.ts";
import type { Protocol } from "../base/protocol.ts";
import type { Endpoint } from "../model/endpoints.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { IpSet } from "../state/ip-set.ts";
import {
  addressEntry,
  addressPortAddressEntry,
  addressPortEntry,
  addressPortNetEntry,
  portEntry,
  type SetEntry,
} from "../state/set-entry.ts";
import { type ServerKey, virtualServerKey } from "../state/virtual-server.ts";
import type { Frontend } from "./frontends.ts";
import type { FamilyOptions } from "./options.ts";
import { type SetRole, setFor } from "./sets.ts";

/** An entry that a service port requests in a set. Several service ports may request the same entry. */
export interface PlannedSetEntry {
  readonly set: IpSet;
  readonly entry: SetEntry;
  /**
   * Key of the entry's virtual server, if other Services may also claim it. The entry then applies only while its
   * Service owns the virtual server. If undefined, the entry always applies.
   */
  readonly claim?: ServerKey;
}

interface Subject {
  readonly port: ServicePort;
  readonly options: FamilyOptions;
}

/**
 * Lists a service port's set entries: for its frontends, local endpoints and health check node port. A frontend for
 * which `isServed` returns false has only an entry for its address. Pure.
 */
export function setEntriesOf(
  subject: Subject,
  frontends: readonly Frontend[],
  endpoints: readonly Endpoint[],
  isServed: (frontend: Frontend) => boolean = () => true,
): readonly PlannedSetEntry[] {
  const { port } = subject;
  const planned: PlannedSetEntry[] = [];
  const putFor =
    (claim?: ServerKey): Put =>
    (role, entry) => {
      const set = setFor(role, port.family);
      planned.push(claim === undefined ? { set, entry } : { set, entry, claim });
    };
  const put = putFor();
  for (const { isLocal, address, port: number } of endpoints) {
    // Includes endpoints that are not ready, because a pod may still have open connections to itself.
    if (isLocal) put("loopBack", addressPortAddressEntry(address, port.protocol, number, address));
  }
  for (const frontend of frontends) {
    if (frontend.isBound) put("ipvsIps", addressEntry(frontend.address));
    if (isServed(frontend)) putFrontend(subject, frontend, putFor(claimOf(port, frontend)));
  }
  if (port.healthCheckNodePort !== 0)
    put("healthCheckNodePort", portEntry(port.healthCheckNodePort));
  // Return a copy, because it has no spare capacity.
  return planned.slice();
}

type Put = (role: SetRole, entry: SetEntry) => void;

/**
 * The claim of a frontend's entries. Undefined for cluster IPs and node ports, each of which the API server allocates
 * to only one Service. External and load-balancer IPs may conflict, because any Service can request them.
 */
function claimOf({ protocol }: ServicePort, frontend: Frontend): ServerKey | undefined {
  const { kind, address, port } = frontend;
  const isAnybodys = kind === "external-ip" || kind === "load-balancer";
  return isAnybodys ? virtualServerKey({ protocol, address, port }) : undefined;
}

function putFrontend(subject: Subject, frontend: Frontend, put: Put): void {
  const { protocol } = subject.port;
  const entry = addressPortEntry(frontend.address, protocol, frontend.port);
  switch (frontend.kind) {
    case "cluster-ip":
      put("clusterIp", entry);
      break;
    case "external-ip":
      put(frontend.isLocal ? "externalIpLocal" : "externalIp", entry);
      break;
    case "load-balancer":
      putLoadBalancer(subject, frontend, entry, put);
      break;
    case "node-port":
      putNodePort(protocol, frontend, entry, put);
      if (subject.options.edges?.strictSourceRanges === true) putRanges(subject, frontend, put);
      break;
  }
}

function putLoadBalancer(
  { port, options }: Subject,
  frontend: Frontend,
  entry: SetEntry,
  put: Put,
): void {
  put("loadBalancer", entry);
  if (frontend.isLocal) put("loadBalancerLocal", entry);
  putRanges({ port, options }, frontend, put);
  if (port.sourceRanges.length > 0 && admitsNode(port, options)) {
    const own = addressPortAddressEntry(
      frontend.address,
      port.protocol,
      port.port,
      frontend.address,
    );
    put("loadBalancerSourceIp", own);
  }
}

/** Adds the entries for source ranges. The node's own connections do not traverse the chains that match these sets. */
function putRanges(
  { port: { protocol, sourceRanges } }: Subject,
  frontend: Frontend,
  put: Put,
): void {
  const { address, port } = frontend;
  if (sourceRanges.length > 0) {
    put("loadBalancerFirewall", addressPortEntry(address, protocol, port));
  }
  // A range inside a wider one is omitted, because it admits no additional clients and sets in nf_tables cannot contain
  // networks that overlap.
  for (const range of widestNetworks(sourceRanges)) {
    put("loadBalancerSourceCidr", addressPortNetEntry(address, protocol, port, range));
  }
}

/** Whether a source range covers this node's own address. */
export function admitsNode(port: ServicePort, options: FamilyOptions): boolean {
  return port.sourceRanges.some((range) => cidrContains(range, options.nodeIp));
}

const nodePortRoles: Readonly<
  Record<Protocol, { readonly all: SetRole; readonly local: SetRole }>
> = {
  TCP: { all: "nodePortTcp", local: "nodePortLocalTcp" },
  UDP: { all: "nodePortUdp", local: "nodePortLocalUdp" },
  SCTP: { all: "nodePortSctp", local: "nodePortLocalSctp" },
};

function putNodePort(protocol: Protocol, frontend: Frontend, entry: SetEntry, put: Put): void {
  const roles = nodePortRoles[protocol];
  const member = protocol === "SCTP" ? entry : portEntry(frontend.port);
  put(roles.all, member);
  if (frontend.isLocal) put(roles.local, member);
}
