/** Objects of the acceptance test: namespace, backends, clients and Services. Pure. */
import type {
  V1EndpointSlice,
  V1Namespace,
  V1Pod,
  V1Service,
  V1ServiceSpec,
} from "@kubernetes/client-node";
import { backendPort } from "./pod/conversation.ts";

/** A namespace is removed only if it has this label. On a pod, the value is the pod's role. */
export const ownLabel = "kube-ipvs.io/e2e";
export const program = "kube-ipvs-e2e";
export const servicePort = 80;

export function namespaceObject(name: string): V1Namespace {
  return {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: {
      name,
      labels: { [ownLabel]: "true", "pod-security.kubernetes.io/enforce": "restricted" },
    },
  };
}

/** A pod that answers with its name. It tolerates all taints of its node. */
export interface PodTemplate {
  readonly name: string;
  readonly nodeName: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** Two backends on the first node, one backend on each other node, and a client on each node. */
export function podTemplates(nodeNames: readonly string[]): readonly PodTemplate[] {
  const [first, ...others] = nodeNames;
  const places = first === undefined ? [] : [first, first, ...others];
  const backends = places.map((nodeName, index): PodTemplate => {
    const onFirst = nodeName === first ? roles.first : {};
    const labels = { ...roles.backend, ...roles.draining, ...onFirst };
    return { name: `backend-${index}`, nodeName, labels };
  });
  const clients = nodeNames.map((nodeName, index): PodTemplate => {
    return { name: `client-${index}`, nodeName, labels: roles.client };
  });
  return [...backends, ...clients];
}

/** Creates a pod. `image` is usually the daemon's image. */
export function podObject({
  name,
  namespace,
  nodeName,
  image,
  labels,
}: PodTemplate & { readonly namespace: string; readonly image: string }): V1Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace, labels },
    spec: {
      nodeName,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 1,
      tolerations: [{ operator: "Exists" }],
      securityContext: {
        runAsUser: 65_534,
        runAsNonRoot: true,
        seccompProfile: { type: "RuntimeDefault" },
      },
      containers: [
        {
          name: "main",
          image,
          imagePullPolicy: "IfNotPresent",
          command: [`/usr/local/bin/${program}`, "serve", name],
          readinessProbe: { tcpSocket: { port: backendPort }, periodSeconds: 1 },
          resources: { requests: { cpu: "10m", memory: "48Mi" } },
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          },
        },
      ],
    },
  };
}

/** Labels of the test's pods. */
export const roles = {
  backend: { "kube-ipvs.io/e2e": "backend" },
  client: { "kube-ipvs.io/e2e": "client" },
  /** Backends on the first node. */
  first: { "kube-ipvs.io/e2e-node": "first" },
  /** Backends of the Service that loses a backend. */
  draining: { "kube-ipvs.io/e2e-drain": "true" },
} as const;

/** The test's Services, by purpose. */
export const serviceRoles = [
  "web",
  "node-port",
  "affinity",
  "headless",
  "internal",
  "external",
  "draining",
  "hints",
] as const;
export type ServiceRole = (typeof serviceRoles)[number];

const specs: Readonly<Record<ServiceRole, V1ServiceSpec>> = {
  web: { ipFamilyPolicy: "PreferDualStack" },
  "node-port": { type: "NodePort" },
  affinity: { sessionAffinity: "ClientIP" },
  headless: { clusterIP: "None" },
  internal: { internalTrafficPolicy: "Local", selector: roles.first },
  external: { type: "NodePort", externalTrafficPolicy: "Local", selector: roles.first },
  draining: { selector: roles.draining },
  hints: {},
};

export function serviceObject(namespace: string, role: ServiceRole): V1Service {
  const object = service(namespace, role, specs[role]);
  // Without a selector, Kubernetes creates no EndpointSlices for this Service. The test creates one.
  if (role === "hints") delete object.spec?.selector;
  return object;
}

/** A Service that requests another Service's address and port, and does not get them. */
export function claimingService(namespace: string, address: string): V1Service {
  return service(namespace, "claim", { externalIPs: [address] });
}

function service(namespace: string, name: string, spec: V1ServiceSpec): V1Service {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace },
    spec: {
      selector: roles.backend,
      ports: bothProtocols({ port: servicePort, targetPort: backendPort }),
      ...spec,
    },
  };
}

function bothProtocols<Port>(port: Port): (Port & { name: string; protocol: string })[] {
  return ["TCP", "UDP"].map((protocol) => ({ ...port, name: protocol.toLowerCase(), protocol }));
}

export interface HintedEndpoint {
  readonly address: string;
  readonly nodeName: string;
  /** The zone in the endpoint's hint. */
  readonly zone: string;
}

/** Endpoints of the Service without a selector, each with a hint for one zone. */
export function hintsSlice(
  namespace: string,
  endpoints: readonly HintedEndpoint[],
): V1EndpointSlice {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      name: "hints-by-hand",
      namespace,
      labels: {
        "kubernetes.io/service-name": "hints",
        "endpointslice.kubernetes.io/managed-by": program,
      },
    },
    addressType: endpoints[0]?.address.includes(":") === true ? "IPv6" : "IPv4",
    ports: bothProtocols({ port: backendPort }),
    endpoints: endpoints.map(({ address, nodeName, zone }) => ({
      addresses: [address],
      nodeName,
      conditions: { ready: true, serving: true, terminating: false },
      hints: { forZones: [{ name: zone }] },
    })),
  };
}
