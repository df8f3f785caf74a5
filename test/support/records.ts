/** Small builders for decoded records, with overrides. */
import type {
  EndpointRecord,
  EndpointSliceRecord,
  ServicePortRecord,
  ServiceRecord,
} from "../../src/api/objects.ts";
import type { Nodes } from "../../src/api/source.ts";
import { type IpAddress, type IpFamily, parseCidr, parseIpAddress } from "../../src/base/ip.ts";
import type { FamilyOptions, PlanOptions } from "../../src/plan/options.ts";

/** Parses an address, and throws if it is not canonical. */
export function ip(text: string): IpAddress {
  const address = parseIpAddress(text);
  if (address === undefined) throw new Error(`Not an address: ${text}`);
  return address;
}

export function cidr(text: string): { readonly address: IpAddress; readonly prefixLength: number } {
  const parsed = parseCidr(text);
  if (parsed === undefined) throw new Error(`Not a network: ${text}`);
  return parsed;
}

export function portRecord(overrides: Partial<ServicePortRecord> = {}): ServicePortRecord {
  return { name: "http", protocol: "TCP", port: 80, nodePort: 0, ...overrides };
}

export function serviceRecord(overrides: Partial<ServiceRecord> = {}): ServiceRecord {
  return {
    name: "default/a",
    createdAtSeconds: 0,
    type: "ClusterIP",
    clusterIps: [ip("10.96.0.10")],
    externalIps: [],
    loadBalancerIps: [],
    sourceRanges: [],
    ports: [portRecord()],
    affinitySeconds: 0,
    isExternalPolicyLocal: false,
    isInternalPolicyLocal: false,
    healthCheckNodePort: 0,
    ...overrides,
  };
}

export function endpointRecord(
  address: string,
  overrides: Partial<EndpointRecord> = {},
): EndpointRecord {
  return {
    address: ip(address),
    nodeName: "node-2",
    isReady: true,
    isServing: true,
    isTerminating: false,
    ...overrides,
  };
}

/** An endpoint on the node in {@link planOptions}. */
export function localEndpoint(
  address: string,
  overrides: Partial<EndpointRecord> = {},
): EndpointRecord {
  return endpointRecord(address, { nodeName: "node-1", ...overrides });
}

export function sliceRecord(
  endpoints: readonly EndpointRecord[],
  overrides: Partial<EndpointSliceRecord> = {},
): EndpointSliceRecord {
  return {
    name: "default/a-1",
    service: "default/a",
    family: "IPv4",
    ports: [{ name: "http", protocol: "TCP", port: 8080 }],
    endpoints,
    ...overrides,
  };
}

export function familyOptions(
  family: IpFamily,
  overrides: Partial<FamilyOptions> = {},
): FamilyOptions {
  const own = family === "IPv4" ? "192.168.10.11" : "fd00:10::11";
  return {
    nodeIp: ip(own),
    nodeAddresses: new Set([ip(own)]),
    nodePortAddresses: [ip(own)],
    localDetector: {
      kind: "source",
      cidr: family === "IPv4" ? "10.244.0.0/16" : "fd00:244::/32",
    },
    ...overrides,
  };
}

/** Node records with their addresses. */
export function nodeRecords(addresses: Readonly<Record<string, readonly IpAddress[]>>): Nodes {
  return new Map(
    Object.entries(addresses).map(([name, own]) => [name, { addresses: own, podCidrs: [] }]),
  );
}

export function planOptions(overrides: Partial<PlanOptions> = {}): PlanOptions {
  return {
    place: { nodeName: "node-1", zone: "z1" },
    families: new Map([
      ["IPv4", familyOptions("IPv4")],
      ["IPv6", familyOptions("IPv6")],
    ]),
    scheduler: "rr",
    masqueradeAll: false,
    masqueradeMark: 0x4000,
    ...overrides,
  };
}
