/** Counts a proxy's requests in the API server's audit log, and shows them with its role's permissions. */
import { readFileSync } from "node:fs";

/** Users in the log: a DaemonSet's service account, and a program with kube-proxy's certificate. */
const account = { kind: "ServiceAccount", namespace: "kube-system", name: "kube-ipvs" };
const certificateUser = "system:kube-proxy";
const users = [`system:serviceaccount:${account.namespace}:${account.name}`, certificateUser];

/** An entry of audit.k8s.io/v1 at level Metadata. */
interface AuditEvent {
  readonly user: { readonly username: string };
  readonly verb: string;
  readonly objectRef?: {
    readonly apiGroup?: string;
    readonly resource?: string;
    readonly subresource?: string;
  };
  readonly requestURI: string;
  readonly responseStatus?: { readonly code: number };
}

export interface PolicyRule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly verbs: readonly string[];
}

/** A ClusterRole or a ClusterRoleBinding. */
export interface RoleObject {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly rules?: readonly PolicyRule[] | null;
  readonly roleRef?: { readonly name: string };
  readonly subjects?: readonly {
    readonly kind: string;
    readonly name: string;
    readonly namespace?: string;
  }[];
}

/** The rules of the ClusterRoles that are bound to a proxy's user. */
export function grantedRules(objects: readonly RoleObject[]): readonly PolicyRule[] {
  const bound = objects
    .filter(({ subjects = [] }) =>
      subjects.some(({ kind, name, namespace }) =>
        kind === "User"
          ? name === certificateUser
          : kind === account.kind && name === account.name && namespace === account.namespace,
      ),
    )
    .map(({ roleRef }) => roleRef?.name);
  return objects
    .filter(({ kind, metadata }) => kind === "ClusterRole" && bound.includes(metadata.name))
    .flatMap(({ rules }) => rules ?? []);
}

/** One verb on one resource. */
export interface RequestCount {
  readonly verb: string;
  /** `RESOURCE`, or `RESOURCE.GROUP` as in kubectl. A path if the request has no resource. */
  readonly resource: string;
  readonly count: number;
  /** Number of 403 responses. */
  readonly forbidden: number;
  readonly isGranted: boolean;
}

/** A watch is counted once, when the watch or the log ends. */
export const auditPolicy: object = {
  apiVersion: "audit.k8s.io/v1",
  kind: "Policy",
  omitStages: ["RequestReceived"],
  rules: [{ level: "Metadata", users }, { level: "None" }],
};

/** Every used or granted verb, by resource. `rules` are those of the proxy's roles. */
export function requestCounts(log: string, rules: readonly PolicyRule[]): readonly RequestCount[] {
  const events = log
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as AuditEvent);
  const used = Map.groupBy(events, (event) => `${resourceOf(event)} ${event.verb}`);
  const granted = new Set(rules.flatMap(grantsOf));
  return [...new Set([...used.keys(), ...granted])].sort().map((key) => {
    const [resource = "", verb = ""] = key.split(" ");
    const requests = used.get(key) ?? [];
    const forbidden = requests.filter(({ responseStatus }) => responseStatus?.code === 403).length;
    return { verb, resource, count: requests.length, forbidden, isGranted: granted.has(key) };
  });
}

export function readAuditLog(path: string, rules: readonly PolicyRule[]): readonly RequestCount[] {
  return requestCounts(readFileSync(path, "utf8"), rules);
}

function resourceOf({ objectRef, requestURI }: AuditEvent): string {
  if (objectRef?.resource === undefined) return requestURI.split("?")[0] ?? "";
  const { resource, subresource, apiGroup = "" } = objectRef;
  return nameOf(subresource === undefined ? resource : `${resource}/${subresource}`, apiGroup);
}

function nameOf(resource: string, group: string): string {
  return group === "" ? resource : `${resource}.${group}`;
}

function grantsOf({ apiGroups = [], resources = [], verbs }: PolicyRule): readonly string[] {
  return apiGroups.flatMap((group) =>
    resources.flatMap((resource) => verbs.map((verb) => `${nameOf(resource, group)} ${verb}`)),
  );
}
