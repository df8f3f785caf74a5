import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  grantedRules,
  type PolicyRule,
  type ProxyRules,
  requestCounts,
} from "../../cluster/audit.ts";

const rules: ProxyRules = {
  own: [
    { apiGroups: [""], resources: ["services"], verbs: ["list", "watch"] },
    { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["list"] },
  ],
  shared: [
    { nonResourceURLs: ["/version", "/api/*"], verbs: ["get"] },
    { apiGroups: [""], resources: ["nodes"], verbs: ["list"] },
  ],
};

function line(verb: string, objectRef: object | undefined, code: number, requestURI = "/"): string {
  const event = { user: { username: "system:kube-proxy" }, verb, requestURI };
  return JSON.stringify({ ...event, ...(objectRef && { objectRef }), responseStatus: { code } });
}

describe("Requests in an audit log", () => {
  it("are counted, with the permissions that the role grants", () => {
    const log = [
      line("list", { resource: "services" }, 200),
      line("list", { resource: "services" }, 200),
      line("list", { resource: "endpointslices", apiGroup: "discovery.k8s.io" }, 200),
      line("patch", { resource: "nodes", subresource: "status" }, 403),
      line("get", undefined, 200, "/version?timeout=10s"),
      line("get", undefined, 200, "/api/v1"),
      line("get", undefined, 403, "/apis"),
      "",
    ].join("\n");
    assert.deepEqual(requestCounts(log, rules), [
      { verb: "get", resource: "/api/v1", count: 1, forbidden: 0, isGranted: true },
      { verb: "get", resource: "/apis", count: 1, forbidden: 1, isGranted: false },
      { verb: "get", resource: "/version", count: 1, forbidden: 0, isGranted: true },
      {
        verb: "list",
        resource: "endpointslices.discovery.k8s.io",
        count: 1,
        forbidden: 0,
        isGranted: true,
      },
      { verb: "patch", resource: "nodes/status", count: 1, forbidden: 1, isGranted: false },
      { verb: "list", resource: "services", count: 2, forbidden: 0, isGranted: true },
      { verb: "watch", resource: "services", count: 0, forbidden: 0, isGranted: true },
    ]);
  });
});

describe("A proxy's permissions", () => {
  it("are those of the ClusterRoles that are bound to its user or its groups", () => {
    const role = (name: string, resource: string): object => {
      const rules = [{ apiGroups: [""], resources: [resource], verbs: ["get"] }];
      return { kind: "ClusterRole", metadata: { name }, rules };
    };
    const binding = (name: string, subject: object): object => {
      return {
        kind: "ClusterRoleBinding",
        metadata: { name },
        roleRef: { name },
        subjects: [subject],
      };
    };
    const ours = { kind: "ServiceAccount", name: "kube-ipvs", namespace: "kube-system" };
    const objects = [
      role("a", "nodes"),
      role("b", "services"),
      role("c", "secrets"),
      role("d", "events"),
      role("e", "pods"),
      { kind: "ClusterRole", metadata: { name: "aggregated" }, rules: null },
      binding("a", ours),
      binding("b", { kind: "User", name: "system:kube-proxy" }),
      binding("c", { ...ours, namespace: "other" }),
      binding("d", { kind: "Group", name: "system:authenticated" }),
      binding("e", { kind: "Group", name: "system:masters" }),
      binding("aggregated", ours),
    ] as Parameters<typeof grantedRules>[0];
    const { own, shared } = grantedRules(objects);
    const resourcesOf = (granted: readonly PolicyRule[]): unknown =>
      granted.map(({ resources }) => resources);
    assert.deepEqual(resourcesOf(own), [["nodes"], ["services"]]);
    assert.deepEqual(resourcesOf(shared), [["events"]]);
  });
});
