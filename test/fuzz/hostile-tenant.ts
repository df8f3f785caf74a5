/** Objects of one tenant, within what an API server's own validation admits, aimed at everybody else. */
import fc from "fast-check";
import type { NamedObject } from "../support/memory-source.ts";
import { endpointSlice, service } from "../support/objects.ts";

export const nodeAddress = "192.168.10.11";
export const gateway = "192.168.10.1";
export const apiServer = "192.168.10.5";
export const apiServerPort = 6_443;
/** Where processes of the node listen. */
export const nodePorts: readonly number[] = [22, 2_379, 10_250];
export const victimCount = 50;
export const victimExternalIp = (index: number): string => `203.0.113.${index + 1}`;
export const victimNodePort = (index: number): number => 30_000 + index;
export const victimEndpoint = (index: number): string => `10.244.9.${index + 1}`;

/** Two of the tenant's objects at a time are enough to take memory; more of them cost the test its time. */
const tenantServices = 8;

/** One step of the tenant: an object that is applied or deleted. */
export interface TenantStep {
  readonly isGone: boolean;
  readonly object: NamedObject;
}

const victims = fc.integer({ min: 0, max: victimCount - 1 });
const contestedAddresses = fc.oneof(
  victims.map(victimExternalIp),
  victims.map((index) => `10.96.1.${index + 1}`),
  victims.map(victimEndpoint),
  fc.constantFrom(nodeAddress, gateway, apiServer, "192.168.10.12", "169.254.169.254"),
  fc.integer({ min: 1, max: 250 }).map((last) => `198.51.100.${last}`),
);
const portNumbers = fc.oneof(
  fc.constantFrom(80, 443, 53, apiServerPort, ...nodePorts),
  victims.map(victimNodePort),
  fc.integer({ min: 1, max: 65_535 }),
);
/** Mostly ordinary, now and then as large as an object can be. */
const portCounts = fc.oneof(
  { weight: 40, arbitrary: fc.integer({ min: 1, max: 4 }) },
  { weight: 1, arbitrary: fc.constantFrom(100, 500) },
);
const addressCounts = fc.oneof(
  { weight: 40, arbitrary: fc.integer({ min: 0, max: 6 }) },
  { weight: 1, arbitrary: fc.constantFrom(100, 500) },
);
const schedulers = fc.constantFrom("ftp", "rr", "wrr", "mh", "sh", "lc", "nosuch", "../x", "sip");

const services: fc.Arbitrary<NamedObject> = fc
  .record({
    index: fc.integer({ min: 0, max: tenantServices - 1 }),
    type: fc.constantFrom("ClusterIP", "NodePort", "LoadBalancer"),
    ports: portCounts,
    firstPorts: fc.uniqueArray(portNumbers, { minLength: 4, maxLength: 4 }),
    addresses: fc.array(contestedAddresses, { minLength: 6, maxLength: 6 }),
    addressCount: addressCounts,
    protocol: fc.constantFrom("TCP", "TCP", "TCP", "UDP"),
    scheduler: fc.option(schedulers, { nil: undefined }),
    isLocal: fc.boolean(),
    affinity: fc.constantFrom("None", "ClientIP"),
    ranges: fc.constantFrom([], ["10.0.0.0/8"], ["0.0.0.0/0"]),
  })
  .map((given) => {
    const isBalanced = given.type === "LoadBalancer";
    // An API server allocates node ports; nobody has one that another Service has.
    const nodePortOf = (index: number): number =>
      given.type === "ClusterIP" || index > 4 ? 0 : 31_000 + given.index * 5 + index;
    return service({
      namespace: "tenant",
      name: `s${given.index}`,
      type: given.type,
      clusterIps: [`10.97.0.${given.index + 1}`],
      metadata: {
        creationTimestamp: "2020-01-01T00:00:00Z",
        annotations:
          given.scheduler === undefined ? {} : { "kube-ipvs.io/scheduler": given.scheduler },
      },
      ports: Array.from({ length: given.ports }, (_, index) => ({
        name: `p${index}`,
        protocol: given.protocol,
        port: given.firstPorts[index] ?? 1_000 + index,
        targetPort: 8_080,
        ...(nodePortOf(index) === 0 ? {} : { nodePort: nodePortOf(index) }),
      })),
      spec: {
        sessionAffinity: given.affinity,
        ...(given.type === "ClusterIP"
          ? {}
          : { externalTrafficPolicy: given.isLocal ? "Local" : "Cluster" }),
        externalIPs: Array.from(
          { length: given.addressCount },
          (_, index) => given.addresses[index] ?? `198.18.${index >> 8}.${index & 255}`,
        ),
        loadBalancerSourceRanges: isBalanced ? given.ranges : [],
      },
      // The status is a controller's to write.
      status: { loadBalancer: isBalanced ? { ingress: [{ ip: `198.19.0.${given.index}` }] } : {} },
    }) as unknown as NamedObject;
  });

const endpointAddresses = fc.oneof(
  victims.map(victimEndpoint),
  fc.constantFrom(nodeAddress, apiServer, gateway, "127.0.0.1", "224.0.0.1", "169.254.169.254"),
  fc.integer({ min: 1, max: 250 }).map((last) => `10.244.8.${last}`),
);
const slices: fc.Arbitrary<NamedObject> = fc
  .record({
    index: fc.integer({ min: 0, max: tenantServices - 1 }),
    part: fc.integer({ min: 0, max: 3 }),
    addresses: fc.uniqueArray(endpointAddresses, { minLength: 0, maxLength: 8 }),
    more: fc.oneof(
      { weight: 30, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.constantFrom(100, 1_000) },
    ),
  })
  .map(
    ({ index, part, addresses, more }) =>
      endpointSlice({
        namespace: "tenant",
        service: `s${index}`,
        name: `s${index}-${part}`,
        addressType: "IPv4",
        endpoints: [
          ...addresses,
          ...Array.from({ length: more }, (_, at) => `10.245.${at >> 8}.${at & 255}`),
        ],
        ports: [0, 1, 2].map((port) => ({ name: `p${port}`, protocol: "TCP", port: 8_080 + port })),
      }) as unknown as NamedObject,
  );

export const tenantSteps: fc.Arbitrary<TenantStep> = fc.record({
  isGone: fc.integer({ min: 0, max: 5 }).map((die) => die === 0),
  object: fc.oneof({ weight: 3, arbitrary: services }, { weight: 2, arbitrary: slices }),
});

/** Services with a cluster IP, an external IP, a node port and endpoints each. */
export function victimObjects(): readonly NamedObject[] {
  return Array.from({ length: victimCount }, (_, index) => index).flatMap((index) => {
    const name = `v${index}`;
    const ports = [
      {
        name: "http",
        protocol: "TCP",
        port: 80,
        targetPort: 8_080,
        nodePort: victimNodePort(index),
      },
    ];
    return [
      service({
        ...{ namespace: "victim", name, type: "NodePort", ports },
        clusterIps: [`10.96.1.${index + 1}`],
        metadata: { creationTimestamp: "2024-01-01T00:00:00Z" },
        spec: { externalIPs: [victimExternalIp(index)], externalTrafficPolicy: "Cluster" },
      }),
      endpointSlice({ namespace: "victim", service: name, endpoints: [victimEndpoint(index)] }),
    ] as unknown as readonly NamedObject[];
  });
}
