/**
 * Builders of API objects as an API server returns them (JSON values with defaults). Each builder takes the values that
 * tests vary. `metadata`, `spec` and `status` override the built object key by key, so a test can set any field, even
 * to an invalid value.
 */

/** An API object as JSON: the input of a decoder, and what the test API server stores. */
export interface ApiObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly [field: string]: unknown;
}

type Fields = Readonly<Record<string, unknown>>;

/** Fields that override the built object. */
export interface Overlay {
  readonly metadata?: Fields;
  readonly spec?: Fields;
  readonly status?: Fields;
}

export interface ServiceOptions extends Overlay {
  readonly name?: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly type?: string;
  /** One per family, with the primary family first. */
  readonly clusterIps?: readonly string[];
  readonly ports?: readonly Fields[];
}

/** A Service `default/web`: ClusterIP 10.96.0.10, port `http` 80/TCP. */
export function service(options: ServiceOptions = {}): ApiObject {
  const { name = "web", namespace = "default", type = "ClusterIP" } = options;
  const clusterIps = options.clusterIps ?? ["10.96.0.10"];
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: metadata({ name, namespace, labels: options.labels, overlay: options.metadata }),
    spec: {
      type,
      clusterIP: clusterIps[0] ?? "",
      clusterIPs: clusterIps,
      ipFamilies: clusterIps.map(familyOfText),
      ipFamilyPolicy: clusterIps.length > 1 ? "PreferDualStack" : "SingleStack",
      sessionAffinity: "None",
      internalTrafficPolicy: "Cluster",
      ...(type === "ClusterIP" ? {} : { externalTrafficPolicy: "Cluster" }),
      ports: options.ports ?? [servicePort()],
      ...options.spec,
    },
    status: { loadBalancer: {}, ...options.status },
  };
}

/** A Service port: `http`, 80/TCP, target 8080. */
export function servicePort(overrides: Fields = {}): Fields {
  return { name: "http", protocol: "TCP", port: 80, targetPort: 8080, ...overrides };
}

export interface EndpointSliceOptions extends Pick<Overlay, "metadata"> {
  readonly name?: string;
  readonly namespace?: string;
  /** Name of the slice's Service. */
  readonly service?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly addressType?: string;
  /** Addresses (ready, without a node), or endpoints from {@link endpoint}. */
  readonly endpoints?: readonly (string | Fields)[];
  readonly ports?: readonly Fields[];
}

/** A slice `default/web-a` for Service `web` with endpoint 10.244.1.10 and port `http` 8080/TCP. */
export function endpointSlice(options: EndpointSliceOptions = {}): ApiObject {
  const { service: owner = "web", namespace = "default", name = `${owner}-a` } = options;
  const labels = { "kubernetes.io/service-name": owner, ...options.labels };
  const endpoints = (options.endpoints ?? ["10.244.1.10"]).map((given) =>
    typeof given === "string" ? endpoint(given) : given,
  );
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: metadata({ name, namespace, labels, overlay: options.metadata }),
    addressType: options.addressType ?? addressTypeOf(endpoints),
    endpoints,
    ports: options.ports ?? [slicePort()],
  };
}

/** A ready endpoint. `conditions` in the overrides replaces all three conditions. */
export function endpoint(address: string, overrides: Fields = {}): Fields {
  const conditions = { ready: true, serving: true, terminating: false };
  return { addresses: [address], conditions, ...overrides };
}

/** A slice port: `http`, 8080/TCP. */
export function slicePort(overrides: Fields = {}): Fields {
  return { name: "http", protocol: "TCP", port: 8080, ...overrides };
}

export interface NodeOptions extends Overlay {
  readonly name?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** InternalIP addresses. */
  readonly addresses?: readonly string[];
  readonly podCidrs?: readonly string[];
}

/** A Node `node-1` in zone z1: 192.168.10.11 and fd00:10::11, pods in 10.244.1.0/24. */
export function node(options: NodeOptions = {}): ApiObject {
  const { name = "node-1", addresses = ["192.168.10.11", "fd00:10::11"] } = options;
  const podCidrs = options.podCidrs ?? ["10.244.1.0/24", "fd00:244:1::/64"];
  const labels = { "topology.kubernetes.io/zone": "z1", ...options.labels };
  const internal = addresses.map((address) => ({ type: "InternalIP", address }));
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: metadata({ name, labels, overlay: options.metadata }),
    spec: { podCIDR: podCidrs[0], podCIDRs: podCidrs, ...options.spec },
    status: { addresses: [...internal, { type: "Hostname", address: name }], ...options.status },
  };
}

function metadata(given: {
  readonly name: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly overlay?: Fields | undefined;
}): Fields {
  const { name, namespace, labels, overlay } = given;
  return {
    name,
    ...(namespace === undefined ? {} : { namespace }),
    uid: `uid-${namespace ?? "cluster"}-${name}`,
    creationTimestamp: "2026-01-01T00:00:00Z",
    ...(labels === undefined ? {} : { labels }),
    ...overlay,
  };
}

function familyOfText(address: string): string {
  return address.includes(":") ? "IPv6" : "IPv4";
}

function addressTypeOf(endpoints: readonly Fields[]): string {
  const first = endpoints[0]?.["addresses"];
  const address: unknown = Array.isArray(first) ? first[0] : undefined;
  return typeof address === "string" ? familyOfText(address) : "IPv4";
}

export interface PodOptions extends Overlay {
  readonly name?: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** One per family, with the primary family first. */
  readonly ips?: readonly string[];
  readonly isReady?: boolean;
}

/** A running, ready Pod `default/web-0` with label app=web at 10.244.1.10, container port `web` 8080. */
export function pod(options: PodOptions = {}): ApiObject {
  const { name = "web-0", namespace = "default", labels = { app: "web" } } = options;
  const ips = options.ips ?? ["10.244.1.10"];
  const ports = [{ name: "web", containerPort: 8080, protocol: "TCP" }];
  const ready = { type: "Ready", status: options.isReady === false ? "False" : "True" };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: metadata({ name, namespace, labels, overlay: options.metadata }),
    spec: { nodeName: "node-1", containers: [{ name: "web", ports }], ...options.spec },
    status: {
      phase: "Running",
      podIP: ips[0] ?? "",
      podIPs: ips.map((ip) => ({ ip })),
      conditions: [ready],
      ...options.status,
    },
  };
}
