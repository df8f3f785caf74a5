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
  /** Paths. `*` at the end matches any rest. */
  readonly nonResourceURLs?: readonly string[];
  readonly verbs: readonly string[];
}

interface Subject {
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string;
}

/** A ClusterRole or a ClusterRoleBinding. */
export interface RoleObject {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly rules?: readonly PolicyRule[] | null;
  readonly roleRef?: { readonly name: string };
  readonly subjects?: readonly Subject[];
}

/** The rules that apply to a proxy. */
export interface ProxyRules {
  /** From bindings of the proxy's user. */
  readonly own: readonly PolicyRule[];
  /** From bindings of groups. They also apply to other users. */
  readonly shared: readonly PolicyRule[];
}

export const noRules: ProxyRules = { own: [], shared: [] };

/** The API server adds service accounts to all of these groups, and the certificate's user to the last one. */
const groups = [
  "system:serviceaccounts",
  `system:serviceaccounts:${account.namespace}`,
  "system:authenticated",
];

export function grantedRules(objects: readonly RoleObject[]): ProxyRules {
  const rulesFor = (isMeant: (subject: Subject) => boolean): readonly PolicyRule[] => {
    const bound = objects
      .filter(({ subjects = [] }) => subjects.some(isMeant))
      .map(({ roleRef }) => roleRef?.name);
    return objects
      .filter(({ kind, metadata }) => kind === "ClusterRole" && bound.includes(metadata.name))
      .flatMap(({ rules }) => rules ?? []);
  };
  return {
    own: rulesFor(({ kind, name, namespace }) =>
      kind === "User"
        ? name === certificateUser
        : kind === account.kind && name === account.name && namespace === account.namespace,
    ),
    shared: rulesFor(({ kind, name }) => kind === "Group" && groups.includes(name)),
  };
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

/** Every verb that was used or that the proxy's own roles grant, by resource. */
export function requestCounts(log: string, { own, shared }: ProxyRules): readonly RequestCount[] {
  const events = log
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as AuditEvent);
  const used = Map.groupBy(events, (event) => `${resourceOf(event)} ${event.verb}`);
  const granted = new Set(own.flatMap(grantsOf));
  const isShared = (key: string): boolean => shared.flatMap(grantsOf).some(matcherOf(key));
  return [...new Set([...used.keys(), ...granted])].sort().map((key) => {
    const [resource = "", verb = ""] = key.split(" ");
    const requests = used.get(key) ?? [];
    const forbidden = requests.filter(({ responseStatus }) => responseStatus?.code === 403).length;
    const isGranted = granted.has(key) || isShared(key);
    return { verb, resource, count: requests.length, forbidden, isGranted };
  });
}

export function readAuditLog(path: string, rules: ProxyRules): readonly RequestCount[] {
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

/** `RESOURCE VERB` or `PATH VERB`. */
function grantsOf(rule: PolicyRule): readonly string[] {
  const { apiGroups = [], resources = [], nonResourceURLs = [], verbs } = rule;
  const names = apiGroups.flatMap((group) => resources.map((resource) => nameOf(resource, group)));
  return [...names, ...nonResourceURLs].flatMap((name) => verbs.map((verb) => `${name} ${verb}`));
}

/** Whether a grant applies to `key`. A path or a verb in the grant may end with `*`. */
function matcherOf(key: string): (grant: string) => boolean {
  const words = key.split(" ");
  return (grant) =>
    grant.split(" ").every((pattern, index) => {
      const word = words[index] ?? "";
      return pattern.endsWith("*") ? word.startsWith(pattern.slice(0, -1)) : word === pattern;
    });
}
