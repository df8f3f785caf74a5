/** A tenant's objects that an API server would accept, directed against all other tenants. */
import fc from "fast-check";
import type { NamedObject } from "../support/memory-source.ts";
import { endpoint, endpointSlice, node, service } from "../support/objects.ts";

export const nodeAddresses = ["192.168.10.11", "fd00:10::11"] as const;
export const gateways = ["192.168.10.1", "fd00:10::1"] as const;
export const otherNodeAddresses = ["192.168.10.12", "fd00:10::12"] as const;
export const apiServer = "192.168.10.5";
export const apiServerPort = 6_443;
export const metadataAddress = "169.254.169.254";
/** Ports on which node processes listen. */
export const nodePorts: readonly number[] = [22, 2_379, 10_250];
export const victimCount = 50;
export const victimPort = 80;
/** The IPv4 address, then the IPv6 address. */
export const victimClusterIps = (index: number): readonly [string, string] => [
  `10.96.1.${index + 1}`,
  `fd00:96:1::${index + 1}`,
];
export const victimExternalIps = (index: number): readonly [string, string] => [
  `203.0.113.${index + 1}`,
  `2001:db8:9::${index + 1}`,
];
export const victimNodePort = (index: number): number => 30_000 + index;
export const victimEndpoints = (index: number): readonly [string, string] => [
  `10.244.9.${index + 1}`,
  `fd00:244:9::${index + 1}`,
];

/** Maximum number of the tenant's Services at a time. More would only slow the test down. */
const tenantServices = 8;

/** One step of the tenant: objects that are applied or deleted. */
export interface TenantStep {
  readonly isGone: boolean;
  readonly objects: readonly NamedObject[];
}

const families = fc.constantFrom<0 | 1>(0, 0, 0, 1);
const victims = fc.integer({ min: 0, max: victimCount - 1 });
/**
 * Addresses of other Services, of the node and of another Node, and unused addresses. The API server's validation lets a
 * tenant claim each of them.
 */
const contestedAddresses = fc
  .tuple(families, victims, fc.integer({ min: 0, max: 8 }), fc.integer({ min: 1, max: 250 }))
  .map(([family, victim, choice, last]) => {
    const contested = [
      victimExternalIps(victim)[family],
      victimClusterIps(victim)[family],
      victimEndpoints(victim)[family],
      nodeAddresses[family],
      gateways[family],
      otherNodeAddresses[family],
      apiServer,
    ];
    return contested[choice] ?? [`198.51.100.${last}`, `2001:db8:51::${last}`][family] ?? apiServer;
  });
/**
 * Set by a cloud controller, or by a tenant with permission to write the status. They take precedence over external
 * IPs.
 */
const balancerAddresses = fc.oneof(
  fc.constantFrom(...nodeAddresses, ...gateways, ...otherNodeAddresses, apiServer, metadataAddress),
  fc.integer({ min: 1, max: 250 }).map((last) => `198.19.0.${last}`),
);
const portNumbers = fc.oneof(
  fc.constant(victimPort),
  fc.constantFrom(443, 53, apiServerPort, ...nodePorts),
  victims.map(victimNodePort),
  fc.integer({ min: 1, max: 65_535 }),
);
/** Usually small, sometimes as large as an object can be. */
const portCounts = fc.oneof(
  { weight: 40, arbitrary: fc.integer({ min: 1, max: 4 }) },
  { weight: 1, arbitrary: fc.constantFrom(100, 500) },
);
const addressCounts = fc.oneof(
  { weight: 40, arbitrary: fc.integer({ min: 0, max: 6 }) },
  { weight: 1, arbitrary: fc.constantFrom(100, 500) },
);
const annotations = fc.dictionary(
  fc.constantFrom(
    ...["scheduler", "scheduler-flags", "one-packet", "max-connections", "drain-deadline"],
    ...["weights", "slow-start", "canary", "prefer-topology"],
  ),
  fc.oneof(
    fc.constantFrom("ftp", "rr", "wrr", "mh", "sh", "lc", "nosuch", "../x", "sip"),
    fc.constantFrom("mh-port", "true", "1,1", "0", "node", "slice", "1s", "8760h"),
    fc.constantFrom("slice=s1-0,share=100%", "zone=z1,share=0%", "kubernetes.io/hostname"),
    fc.string({ maxLength: 300 }),
  ),
  { maxKeys: 3 },
);

interface ServiceShape {
  readonly index: number;
  readonly type: string;
  readonly ports: number;
  readonly firstPorts: readonly number[];
  readonly addresses: readonly string[];
  readonly addressCount: number;
  readonly balancer: string;
  readonly protocol: string;
  readonly annotations: Readonly<Record<string, string>>;
  readonly isDualStack: boolean;
  readonly external: string;
  readonly internal: string;
  readonly affinitySeconds: number;
  readonly ranges: readonly string[];
  readonly hasAllocatedNodePorts: boolean;
}

function serviceOf(given: ServiceShape): NamedObject {
  const { index, type } = given;
  const isBalanced = type === "LoadBalancer";
  const isLocal = isBalanced && given.external === "Local";
  // An API server allocates node ports, so no two Services have the same one.
  const nodePortOf = (port: number): number =>
    type === "ClusterIP" || port > 4 || !given.hasAllocatedNodePorts
      ? 0
      : 31_000 + index * 5 + port;
  return service({
    namespace: "tenant",
    name: `s${index}`,
    type,
    clusterIps: [`10.97.0.${index + 1}`, ...(given.isDualStack ? [`fd00:97::${index + 1}`] : [])],
    metadata: {
      creationTimestamp: "2020-01-01T00:00:00Z",
      annotations: Object.fromEntries(
        Object.entries(given.annotations).map(([name, text]) => [`kube-ipvs.io/${name}`, text]),
      ),
    },
    ports: Array.from({ length: given.ports }, (_, port) => ({
      name: `p${port}`,
      protocol: given.protocol,
      port: given.firstPorts[port] ?? 1_000 + port,
      targetPort: 8_080,
      ...(nodePortOf(port) === 0 ? {} : { nodePort: nodePortOf(port) }),
    })),
    spec: {
      ...(given.affinitySeconds === 0
        ? { sessionAffinity: "None" }
        : {
            sessionAffinity: "ClientIP",
            sessionAffinityConfig: { clientIP: { timeoutSeconds: given.affinitySeconds } },
          }),
      internalTrafficPolicy: given.internal,
      ...(type === "ClusterIP" ? {} : { externalTrafficPolicy: given.external }),
      ...(isLocal ? { healthCheckNodePort: 32_000 + index } : {}),
      externalIPs: Array.from(
        { length: given.addressCount },
        (_, at) => given.addresses[at] ?? `198.18.${at >> 8}.${at & 255}`,
      ),
      loadBalancerSourceRanges: isBalanced ? given.ranges : [],
    },
    status: { loadBalancer: isBalanced ? { ingress: [{ ip: given.balancer }] } : {} },
  }) as unknown as NamedObject;
}

const policies = fc.constantFrom("Cluster", "Local");
const services: fc.Arbitrary<NamedObject> = fc
  .record<ServiceShape>({
    index: fc.integer({ min: 0, max: tenantServices - 1 }),
    type: fc.constantFrom("ClusterIP", "NodePort", "LoadBalancer"),
    ports: portCounts,
    firstPorts: fc.uniqueArray(portNumbers, { minLength: 4, maxLength: 4 }),
    addresses: fc.array(contestedAddresses, { minLength: 6, maxLength: 6 }),
    addressCount: addressCounts,
    balancer: balancerAddresses,
    protocol: fc.constantFrom("TCP", "TCP", "TCP", "UDP", "SCTP"),
    annotations,
    isDualStack: fc.boolean(),
    external: policies,
    internal: policies,
    affinitySeconds: fc.constantFrom(0, 0, 1, 10_800, 86_400),
    ranges: fc.constantFrom([], ["10.0.0.0/8"], ["0.0.0.0/0"], ["192.0.2.0/24", "2001:db8::/32"]),
    hasAllocatedNodePorts: fc.boolean(),
  })
  .map(serviceOf);

const endpointAddresses = fc.oneof(
  victims.map((index) => victimEndpoints(index)[0]),
  fc.constantFrom(nodeAddresses[0], apiServer, gateways[0], "127.0.0.1", "224.0.0.1"),
  fc.constantFrom(metadataAddress, "239.1.1.1"),
  fc.integer({ min: 1, max: 250 }).map((last) => `10.244.8.${last}`),
);
const endpoints = fc
  .record({
    address: endpointAddresses,
    conditions: fc.record({
      ready: fc.boolean(),
      serving: fc.boolean(),
      terminating: fc.boolean(),
    }),
    nodeName: fc.constantFrom("node-1", "node-2", "no-such-node"),
    zone: fc.constantFrom("z1", "z2"),
  })
  .map(({ address, ...others }) => endpoint(address, others));

function sliceOf(
  index: number,
  part: number,
  of: readonly (string | Readonly<Record<string, unknown>>)[],
): NamedObject {
  return endpointSlice({
    namespace: "tenant",
    service: `s${index}`,
    name: `s${index}-${part}`,
    addressType: "IPv4",
    endpoints: of,
    ports: [0, 1, 2].map((port) => ({ name: `p${port}`, protocol: "TCP", port: 8_080 + port })),
  }) as unknown as NamedObject;
}

const manyEndpoints = (count: number, second = 245): readonly string[] =>
  Array.from({ length: count }, (_, at) => `10.${second}.${at >> 8}.${at & 255}`);

const slices: fc.Arbitrary<NamedObject> = fc
  .record({
    index: fc.integer({ min: 0, max: tenantServices - 1 }),
    part: fc.integer({ min: 0, max: 3 }),
    few: fc.uniqueArray(endpoints, {
      maxLength: 8,
      selector: ({ addresses }) => String(addresses),
    }),
    more: fc.oneof(
      { weight: 30, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.constantFrom(100, 992) },
    ),
  })
  .map(({ index, part, few, more }) => sliceOf(index, part, [...few, ...manyEndpoints(more)]));

export const tenantSteps: fc.Arbitrary<TenantStep> = fc.record({
  isGone: fc.integer({ min: 0, max: 5 }).map((die) => die === 0),
  objects: fc
    .oneof({ weight: 3, arbitrary: services }, { weight: 2, arbitrary: slices })
    .map((object) => [object]),
});

const plainShape: ServiceShape = {
  ...{ index: 0, type: "LoadBalancer", ports: 3, firstPorts: [22, 80, 6_443], addressCount: 500 },
  ...{ addresses: [], balancer: "198.19.0.1", protocol: "TCP", annotations: {}, ranges: [] },
  ...{ isDualStack: true, external: "Cluster", internal: "Cluster", affinitySeconds: 0 },
  hasAllocatedNodePorts: true,
};

const manyAddresses = [
  serviceOf({ ...plainShape, index: 2, ports: 1, firstPorts: [victimPort], addressCount: 30_000 }),
];

/** IPv4 /24 networks, starting with 20.0.0.0. */
const manyRanges = Array.from(
  { length: 20_000 },
  (_, index) => `${20 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}.0/24`,
);

/**
 * Objects of maximum size: 500 addresses with 500 ports; 30,000 addresses, each written twice; 20,000 source ranges
 * with 100 ports; and 1,000 slices of 100 endpoints for one Service.
 */
const largestObjects: readonly (readonly NamedObject[])[] = [
  manyAddresses,
  manyAddresses,
  [serviceOf({ ...plainShape, ports: 500 })],
  [
    serviceOf({ ...plainShape, index: 3, ports: 100, addressCount: 0, ranges: manyRanges }),
    sliceOf(3, 0, manyEndpoints(10)),
  ],
  [
    serviceOf({ ...plainShape, index: 1, addressCount: 20 }),
    ...Array.from({ length: 1_000 }, (_, part) => sliceOf(1, part, manyEndpoints(100, part & 127))),
  ],
];

export const largestSteps: readonly TenantStep[] = [false, true].flatMap((isGone) =>
  largestObjects.map((objects) => ({ isGone, objects })),
);

/** Services with a node port and, in each family, cluster IPs, external IPs and an endpoint; and another Node. */
export function victimObjects(): readonly NamedObject[] {
  return Array.from({ length: victimCount }, (_, index) => index).flatMap((index) => {
    const name = `v${index}`;
    const port = { name: "http", protocol: "TCP", port: victimPort, targetPort: 8_080 };
    return [
      service({
        ...{ namespace: "victim", name, type: "NodePort" },
        ports: [{ ...port, nodePort: victimNodePort(index) }],
        clusterIps: victimClusterIps(index),
        metadata: { creationTimestamp: "2024-01-01T00:00:00Z" },
        spec: { externalIPs: victimExternalIps(index), externalTrafficPolicy: "Cluster" },
      }),
      ...victimEndpoints(index).map((address, family) =>
        endpointSlice({
          ...{ namespace: "victim", service: name, name: `${name}-${family}` },
          endpoints: [address],
        }),
      ),
    ] as unknown as readonly NamedObject[];
  });
}

export const otherNode: NamedObject = node({
  name: "node-2",
  addresses: otherNodeAddresses,
  podCidrs: ["10.244.9.0/24", "fd00:244:9::/64"],
}) as unknown as NamedObject;
