/** Tests a small plan as text for people and as values for programs. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiVersion } from "../../../src/answer/answers.ts";
import { planView } from "../../../src/answer/plan.ts";
import { setFor, temporaryNameOf } from "../../../src/plan/sets.ts";
import type { Change } from "../../../src/reconcile/change.ts";
import { type ChangePlan, emptyPlan } from "../../../src/reconcile/change-plan.ts";
import { planObject } from "../../../src/reconcile/plan-object.ts";
import { dummyLinkName } from "../../../src/state/dummy-link.ts";
import { addressPortEntry } from "../../../src/state/set-entry.ts";
import { toServerKey, type VirtualServer } from "../../../src/state/virtual-server.ts";
import { ip } from "../../support/records.ts";

const virtualServer: VirtualServer = {
  protocol: "TCP",
  address: ip("10.96.0.10"),
  port: 80,
  scheduler: "rr",
  persistenceTimeoutSeconds: 0,
  persistencePrefixLength: 32,
  flags: 0,
};
const key = toServerKey("TCP 10.96.0.10:80");
const realServer = { address: ip("10.244.2.11"), port: 8080, weight: 1, forwardingMethod: 0 };
const clusterIps = setFor("clusterIp", "IPv4");
const larger = { ...clusterIps, maxElements: 131_072 };
const entry = addressPortEntry(ip("10.96.0.10"), "TCP", 80);
const chain = { table: "filter", name: "KUBE-FORWARD", rules: [] } as const;
const jump = {
  table: "filter",
  from: "INPUT",
  rule: { matches: [], target: { kind: "jump", chain: "KUBE-NODE-PORT" } },
} as const;

const create: Change = {
  kind: "virtual-server-create",
  key,
  after: virtualServer,
  reason: "missing",
};
const addServer: Change = {
  kind: "real-server-create",
  key,
  virtualServer,
  after: realServer,
  reason: "missing",
};
const drain: Change = {
  kind: "real-server-update",
  key,
  virtualServer,
  before: { ...realServer, address: ip("10.244.2.12") },
  after: { ...realServer, address: ip("10.244.2.12"), weight: 0 },
  reason: "drain-start",
};
const bind: Change = { kind: "address-add", address: ip("10.96.0.10"), reason: "missing" };

const plan: ChangePlan = {
  ...emptyPlan,
  changes: [
    { kind: "module-load", module: "ip_vs", reason: "missing" },
    {
      kind: "sysctl-write",
      path: "net/ipv4/vs/conntrack",
      before: "0",
      after: "1",
      reason: "differs",
    },
    {
      kind: "sysctl-write",
      path: "net/ipv4/ip_forward",
      before: undefined,
      after: "1",
      reason: "differs",
    },
    { kind: "link-create", link: dummyLinkName, reason: "missing" },
    { kind: "set-create", set: clusterIps, reason: "missing" },
    { kind: "set-swap", set: larger, entries: new Set(), reason: "resize" },
    { kind: "set-destroy", setName: temporaryNameOf(clusterIps.name), reason: "leftover" },
    { kind: "entry-add", set: clusterIps, entry, reason: "missing" },
    { kind: "chain-write", family: "IPv4", chain, before: ["-j DROP"], reason: "differs" },
    { kind: "jump-insert", family: "IPv4", jump, reason: "missing" },
    create,
    {
      kind: "virtual-server-update",
      key: toServerKey("TCP 10.96.0.11:80"),
      before: virtualServer,
      after: { ...virtualServer, persistenceTimeoutSeconds: 10_800, flags: 0x10 },
      reason: "differs",
    },
    addServer,
    drain,
    {
      kind: "conntrack-delete",
      key: toServerKey("UDP 10.96.0.10:53"),
      selection: { destination: ip("10.96.0.10"), destinationPort: 53 },
      reason: "stale-conntrack",
    },
  ],
  deferred: [{ change: bind, reason: "refused" }],
  conflicts: [toServerKey("TCP 10.96.0.98:80")],
  servicesOf: (change) => (change === create || change === bind ? ["default/a"] : []),
};

const text = `Kernel modules: 1
  + ip_vs  # missing

Sysctls: 2
  ~ net/ipv4/vs/conntrack (0 -> 1)  # differs
  ~ net/ipv4/ip_forward (absent -> 1)  # differs

Link: 1
  + kube-ipvs0  # missing

Sets: 3
  + KUBE-CLUSTER-IP (hash:ip,port, maxelem 65536)  # missing
  ~ KUBE-CLUSTER-IP (maxelem 131072)  # resize
  - KTMP-CLUSTER-IP  # leftover

Set entries: 1
  + KUBE-CLUSTER-IP 10.96.0.10,tcp:80  # missing

iptables chains and jumps: 2
  ~ IPv4 filter KUBE-FORWARD (1 -> 0 rules)  # differs
  + IPv4 filter INPUT (jump KUBE-NODE-PORT)  # missing

Virtual servers: 2
  + TCP 10.96.0.10:80 (rr)  # missing, service default/a
  ~ TCP 10.96.0.11:80 (rr -> rr persistent 10800s flags 0x10)  # differs

Real servers: 2
  + TCP 10.96.0.10:80 -> 10.244.2.11:8080 (weight 1)  # missing
  ~ TCP 10.96.0.10:80 -> 10.244.2.12:8080 (weight 1 -> weight 0)  # drain-start

Conntrack entries: 1
  - UDP 10.96.0.10:53  # stale-conntrack

Addresses on kube-ipvs0: 1
  + 10.96.0.10  # missing, service default/a, waiting: refused

Conflict: TCP 10.96.0.98:80 is claimed by a Service but belongs to a third party; it is kept

15 changes would be made, so plan exits with 2.
`;

function planText(changes: ChangePlan): string {
  const answer = { apiVersion, kind: "Plan", ...planObject(changes) } as const;
  return `${planView.blocks(answer, false).join("\n")}\n`;
}

describe("the text of a plan", () => {
  it("groups changes by object type, with reasons, Services and pending changes", () => {
    assert.equal(planText(plan), text);
  });

  it("reports that there is nothing to do", () => {
    assert.equal(planText(emptyPlan), "No changes.\n");
  });

  it("names conflicts even if there is nothing to do", () => {
    const { conflicts } = plan;
    assert.match(planText({ ...emptyPlan, conflicts }), /Conflict: TCP 10\.96\.0\.98:80 /);
  });
});

describe("planObject", () => {
  it("has kind, typed subject, before, after, Services and reason of each change", () => {
    const changes = [create, addServer, drain];
    assert.deepEqual(planObject({ ...plan, changes }), {
      changes: [
        {
          kind: "virtual-server-create",
          subject: { type: "virtual-server", virtualServer: key },
          text: "+ TCP 10.96.0.10:80 (rr)",
          after: virtualServer,
          services: ["default/a"],
          reason: "missing",
        },
        {
          kind: "real-server-create",
          subject: { type: "real-server", virtualServer: key, realServer: "10.244.2.11:8080" },
          text: "+ TCP 10.96.0.10:80 -> 10.244.2.11:8080 (weight 1)",
          after: realServer,
          services: [],
          reason: "missing",
        },
        {
          kind: "real-server-update",
          subject: { type: "real-server", virtualServer: key, realServer: "10.244.2.12:8080" },
          text: "~ TCP 10.96.0.10:80 -> 10.244.2.12:8080 (weight 1 -> weight 0)",
          before: { ...realServer, address: "10.244.2.12" },
          after: { ...realServer, address: "10.244.2.12", weight: 0 },
          services: [],
          reason: "drain-start",
        },
        {
          kind: "address-add",
          subject: { type: "address", address: "10.96.0.10" },
          text: "+ 10.96.0.10",
          services: ["default/a"],
          reason: "missing",
          deferred: "refused",
        },
      ],
      conflicts: ["TCP 10.96.0.98:80"],
    });
  });

  it("has the values of chains and sets before and after the change", () => {
    const values = planObject(plan).changes.map(({ kind, before, after }) => {
      return { kind, before, after };
    });
    const of = (wanted: string) => values.filter(({ kind }) => kind === wanted);
    assert.deepEqual(of("chain-write"), [{ kind: "chain-write", before: ["-j DROP"], after: [] }]);
    assert.deepEqual(of("set-create"), [
      { kind: "set-create", before: undefined, after: clusterIps },
    ]);
    assert.equal(of("sysctl-write").length, 2);
  });

  it("is the same after JSON, and empty for an empty plan", () => {
    const object = planObject(plan);
    const parsed = JSON.parse(JSON.stringify(object));
    assert.equal(parsed.changes.length, plan.changes.length + 1);
    assert.deepEqual(JSON.stringify(parsed), JSON.stringify(object));
    assert.deepEqual(planObject(emptyPlan), { changes: [], conflicts: [] });
  });
});
