/** Tests reports about Services that do not get an address they request: one line for each, and metrics by reason. */

import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { ClusterEvent } from "../../../../src/api/event.ts";
import type { ServiceRecord } from "../../../../src/api/objects.ts";
import { limitConflict } from "../../../../src/daemon/report/conflicts.ts";
import type { LoopSummary } from "../../../../src/daemon/report/loop-reporter.ts";
import { ProxyHealth } from "../../../../src/daemon/report/proxy-health.ts";
import { SyncReporter } from "../../../../src/daemon/report/sync-reporter.ts";
import type { LostClaim } from "../../../../src/plan/claims/claim.ts";
import { DesiredState } from "../../../../src/plan/desired-state.ts";
import type { FamilyOptions } from "../../../../src/plan/options.ts";
import { emptyReport } from "../../../../src/reconcile/report.ts";
import { type ServerKey, toServerKey } from "../../../../src/state/virtual-server.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { planService } from "../../../support/plan-at-once.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { familyOptions, ip, planOptions, serviceRecord } from "../../../support/records.ts";
import { gaugeOf, silentMetrics } from "../../../support/silent-metrics.ts";

const a = serviceRecord({ externalIps: [ip("203.0.113.5")] });
const b = serviceRecord({ ...a, name: "default/b", clusterIps: [ip("10.96.0.11")] });

let log: RecordingLogger;
let counts: Map<string, number>;
let desired: DesiredState;
let lostHealthPorts: readonly LostClaim[];
let reporter: SyncReporter;
let events: ClusterEvent[];

beforeEach(() => {
  const clock = new FakeClock();
  log = new RecordingLogger();
  counts = new Map();
  desired = new DesiredState();
  lostHealthPorts = [];
  const conflicts = gaugeOf<"conflicts">(({ reason }, count) => counts.set(String(reason), count));
  const metrics = { ...silentMetrics, conflicts };
  events = [];
  reporter = new SyncReporter({
    metrics,
    health: new ProxyHealth(clock, 60_000),
    clock,
    log,
    nodeName: "node-1",
    events: { record: (event) => void events.push(event) },
  });
});

function put(service: ServiceRecord, overrides: Partial<FamilyOptions> = {}): void {
  const families = new Map([["IPv4", familyOptions("IPv4", overrides)]] as const);
  for (const plan of planService(service.name, service, [], planOptions({ families }))) {
    desired.replace(plan.service, plan.family, plan.servicePorts);
  }
}

/** Reports a sync. Returns its warnings, and the metrics that are not zero. */
function report(conflicts: readonly ServerKey[] = []): readonly [readonly object[], object] {
  log.lines.length = 0;
  const summary: LoopSummary = {
    families: ["IPv4"],
    report: { ...emptyReport, conflicts },
    isFull: false,
    observeOnly: false,
    serviceCount: 2,
    plannedServiceCount: 0,
    elapsedMs: 1,
    triggers: [],
    desired,
    lostHealthPorts,
    waitingClaims: [],
    annotationProblems: new Map(),
    limitedServices: [],
  };
  reporter.synced(summary, { desired, drains: { count: 0, oldestAgeSeconds: 0 } });
  const warnings = log.lines.filter(({ level }) => level === "warn").map(({ keys }) => keys);
  return [warnings, Object.fromEntries([...counts].filter(([, count]) => count > 0))];
}

describe("a Service above a limit", () => {
  it("is reported with the served part, the request and the setting", () => {
    const demand = { frontends: 250_500, endpoints: 8 };
    const share = { frontends: 4_096, endpoints: 50_000 };
    const service = serviceRecord({ name: "default/a" });
    const conflict = limitConflict({ service, slices: [], limit: "service-limit", demand, share });
    assert.equal(
      conflict.note,
      "at most 4096 of 250500 frontends are served because of kubeIpvs.serviceFrontendLimit",
    );
    assert.deepEqual([conflict.reason, conflict.service], ["service-limit", "default/a"]);
  });
});

describe("Events about conflicts", () => {
  it("are written once, about the Service that does not get the address", () => {
    put(a);
    put(b);
    report([]);
    report([]);
    assert.deepEqual(events, [
      {
        type: "Warning",
        reason: "AddressClaimed",
        action: "ServeAddress",
        subject: { kind: "Service", namespace: "default", name: "b" },
        note: "node node-1: TCP 203.0.113.5:80 is served for Service default/a, which is equally old but whose name sorts first; give Service default/b a different address or port",
        isSeenByAllNodes: true,
      },
    ]);
  });

  it("give the reason why the other Service owns it", () => {
    const noteOf = (): string => {
      events.length = 0;
      report([]);
      return events.map(({ note }) => note.split(", ").at(-1)?.split(";")[0]).join();
    };
    put({ ...a, createdAtSeconds: 2 });
    put({ ...b, createdAtSeconds: 3 });
    assert.equal(noteOf(), "which is older");
    desired.claims.settle();
    put({ ...b, externalIps: [] });
    report([]);
    put({ ...b, createdAtSeconds: 1 });
    assert.equal(noteOf(), "which owned it before");
    put({ ...b, externalIps: [], loadBalancerIps: a.externalIps, type: "LoadBalancer" });
    assert.equal(noteOf(), "whose kind of address takes precedence");
  });

  it("report foreign virtual servers and addresses that the node needs", () => {
    put(a, { reserved: new Map([[ip("203.0.113.5"), "node-address"]]) });
    report([toServerKey("TCP 10.96.0.10:80")]);
    const told = events.map(({ reason, subject, note }) => `${reason} ${subject.name}: ${note}`);
    assert.deepEqual(told, [
      "ForeignVirtualServer a: node node-1: TCP 10.96.0.10:80 is a virtual server of other software on this node, so kube-ipvs keeps it and does not serve the Service there; remove it with ipvsadm -D, or give Service default/a a different address or port",
      "ReservedAddress a: node node-1: 203.0.113.5 is not bound on this node: it is an address of the node; give Service default/a a different address",
    ]);
    assert.deepEqual(
      events.map((event) => event.isSeenByAllNodes),
      [false, false],
    );
  });
});

describe("conflicts", () => {
  it("between two Services are reported when they appear, and counted while they last", () => {
    put(a);
    put(b);
    const lost = {
      virtualServer: "TCP 203.0.113.5:80",
      winner: "default/a:http",
      loser: "default/b:http",
      claim: "earlier-name",
    };
    const counted = { "claimed-by-another-service": 1 };
    assert.deepEqual(report([]), [[{ ...lost, reason: "claimed-by-another-service" }], counted]);
    assert.deepEqual(report(), [[], counted]);
    put(serviceRecord({ name: "default/b", clusterIps: [ip("10.96.0.11")] }));
    assert.deepEqual(report(), [[], {}]);
    put(b);
    assert.equal(report()[0].length, 1);
  });

  it("about a health-check node port are reported like those about an address", () => {
    const [virtualServer, winner, loser] = [
      "health-check node port 30000 (IPv4)",
      "default/a:http",
      "default/b:http",
    ];
    lostHealthPorts = [{ virtualServer, winner, loser, reason: "held-before" }];
    const told = { healthCheckNodePort: virtualServer, winner, loser, claim: "held-before" };
    const reason = "claimed-by-another-service";
    assert.deepEqual(report(), [[{ ...told, reason }], { [reason]: 1 }]);
    assert.equal(
      events.at(-1)?.note,
      `node node-1: ${virtualServer} is served for Service default/a, which owned it before; give Service default/b a different address or port`,
    );
    lostHealthPorts = [];
    assert.deepEqual(report(), [[], {}]);
  });

  it("with foreign virtual servers last as long as syncs find them", () => {
    put(a);
    const told = {
      virtualServer: "TCP 203.0.113.5:80",
      servicePortName: "default/a:http",
      reason: "foreign-virtual-server",
    };
    const counted = { "foreign-virtual-server": 1 };
    assert.deepEqual(report([toServerKey("TCP 203.0.113.5:80")]), [[told], counted]);
    assert.deepEqual(report([toServerKey("TCP 203.0.113.5:80")]), [[], counted]);
    assert.deepEqual(report(), [[], {}]);
    assert.deepEqual(report([toServerKey("TCP 203.0.113.5:80")]), [[told], counted]);
  });

  it("about addresses that the node needs are reported once for each address", () => {
    const reserved = new Map([[ip("203.0.113.5"), "gateway-address"]] as const);
    put(a, { reserved });
    put({ ...b, ports: [{ name: "http", protocol: "TCP", port: 81, nodePort: 0 }] }, { reserved });
    const told = {
      address: "203.0.113.5",
      servicePortName: "default/a:http",
      reason: "gateway-address",
    };
    assert.deepEqual(report([]), [[told], { "gateway-address": 2 }]);
    assert.deepEqual(report(), [[], { "gateway-address": 2 }]);
    put(a);
    put(b);
    assert.deepEqual(report()[1], { "claimed-by-another-service": 1 });
  });
});
