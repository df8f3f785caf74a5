import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { listOf } from "../../../src/answer/answer.ts";
import { foreignReason, lostReason, rowReasons } from "../../../src/answer/reasons.ts";
import { linesOf } from "../../../src/answer/render.ts";
import type { DrainRow, ServiceRow } from "../../../src/answer/rows.ts";
import { drainsView, servicesView } from "../../../src/answer/services-view.ts";

function tableOf(rows: readonly ServiceRow[], hasDetails = false, width?: number) {
  const blocks = servicesView(hasDetails, "nothing").blocks(listOf("ServiceList", rows), false);
  return linesOf(blocks, { width });
}

const web: ServiceRow = {
  namespace: "default",
  name: "web",
  portName: "http",
  type: "ClusterIP",
  frontend: "cluster-ip",
  protocol: "TCP",
  address: "10.96.0.10",
  port: 80,
  scheduler: "rr",
  affinitySeconds: 10_800,
  trafficPolicy: "Cluster",
  realServers: { planned: 2, programmed: 1, draining: 1 },
};
const rejected: ServiceRow = {
  ...web,
  name: "api",
  type: "NodePort",
  frontend: "node-port",
  address: "fd00::1",
  port: 30_080,
  affinitySeconds: 0,
  reason: "foreign-virtual-server",
  realServers: { planned: 1, programmed: 0, draining: 0 },
};
const detailed: ServiceRow = {
  ...web,
  endpoints: [
    {
      address: "10.244.1.10",
      port: 8080,
      node: "node-1",
      ready: true,
      serving: true,
      terminating: false,
      local: true,
      zoneHints: ["z1"],
      weight: 1,
      activeConnections: 12,
      inactiveConnections: 3,
    },
    {
      address: "10.244.1.11",
      port: 8080,
      ready: false,
      serving: true,
      terminating: true,
      local: false,
      reason: "terminating",
    },
    {
      address: "10.244.1.12",
      port: 8080,
      weight: 0,
      activeConnections: 1,
      inactiveConnections: 0,
      drain: { ageSeconds: 125, deadlineInSeconds: 775 },
      reason: "endpoint-removed",
    },
  ],
};

describe("the table of Services", () => {
  it("fits 80 columns with long names, each cell on its own line if necessary", () => {
    const long = {
      ...rejected,
      namespace: "ingress-nginx",
      name: "ingress-nginx-controller-admission",
      address: "fd00:10:96:aaaa:bbbb:cccc:dddd:eeee",
    };
    const lines = tableOf([long, web], false, 80);
    assert.ok(lines.includes("NAME: ingress-nginx-controller-admission"), lines.join("\n"));
    assert.ok(lines.every(({ length }) => length <= 80));
  });

  it("has a line for each virtual server", () => {
    assert.deepEqual(tableOf([web, rejected]), [
      "NAMESPACE  NAME  PORT  TYPE       PROTO  VIRTUAL-SERVER   FRONTEND    SCHED  AFFINITY  POLICY   ENDPOINTS        REASON",
      "default    web   http  ClusterIP  TCP    10.96.0.10:80    cluster-ip  rr     10800s    Cluster  1/2 +1 draining  -",
      "default    api   http  NodePort   TCP    [fd00::1]:30080  node-port   rr     -         Cluster  0/1              foreign-virtual-server",
    ]);
  });

  it("names the Service that owns an address, and the reason", () => {
    const claimedBy = { namespace: "shop", name: "web", claim: "held-before" } as const;
    const lost = { ...rejected, reason: "claimed-by-another-service", claimedBy };
    const [, line = ""] = tableOf([lost]);
    assert.match(line, / claimed-by-another-service \(shop\/web, held-before\)$/);
  });

  it("lists endpoints below, with the reason if an endpoint is not used", () => {
    assert.deepEqual(tableOf([detailed], true).slice(2), [
      "  ENDPOINT          NODE    STATE                LOCAL  ZONES  WEIGHT  ACTIVE  INACTIVE  DRAIN                        REASON",
      "  10.244.1.10:8080  node-1  ready                yes    z1          1      12         3  -                            -",
      "  10.244.1.11:8080  -       serving,terminating  no     -           -       -         -  -                            terminating",
      "  10.244.1.12:8080  -       removed              -      -           0       1         0  2 min 5 s, 12 min 55 s left  endpoint-removed",
    ]);
    assert.equal(tableOf([{ ...web, endpoints: [] }], true).at(-1), "  no endpoints");
  });

  it("drops columns that do not fit the terminal, and names them", () => {
    assert.deepEqual(tableOf([web], false, 80), [
      "NAMESPACE  NAME  PORT  PROTO  VIRTUAL-SERVER  ENDPOINTS        REASON",
      "default    web   http  TCP    10.96.0.10:80   1/2 +1 draining  -",
      "(not shown: AFFINITY, POLICY, SCHED, TYPE, FRONTEND; -o wide shows all columns)",
    ]);
    const lines = tableOf([detailed, detailed], true, 80);
    assert.ok(
      lines.every((line) => line.length <= 80),
      lines.join("\n"),
    );
  });

  it("has a line for each of 10,000 Services", () => {
    const rows = Array.from({ length: 10_000 }, (_, index) => ({ ...web, name: `svc-${index}` }));
    assert.equal(tableOf(rows, false, 120).length, 10_002);
  });
});

describe("the reasons in rows", () => {
  const commands = readFileSync(join(import.meta.dirname, "../../../docs/commands.md"), "utf8");
  for (const reason of [...Object.keys(rowReasons), lostReason, foreignReason]) {
    it(`are described in docs/commands.md: ${reason}`, () => {
      assert.match(commands, new RegExp(`^\\|.*\`${reason}\`.*\\|$`, "m"));
    });
  }
});

describe("the table of drains", () => {
  it("shows when each drain began, and when it ends", () => {
    const drain: DrainRow = {
      namespace: "default",
      name: "web",
      protocol: "TCP",
      address: "10.96.0.10",
      port: 80,
      realServer: { address: "10.244.1.12", port: 8080 },
      ageSeconds: 125,
      deadlineInSeconds: 775,
      activeConnections: 1,
      inactiveConnections: 0,
    };
    const { deadlineInSeconds: _none, namespace: _ns, name: _name, ...endless } = drain;
    const blocks = drainsView.blocks(listOf("DrainList", [drain, endless]), false);
    assert.deepEqual(linesOf(blocks, {}), [
      "AGE        DEADLINE        NAMESPACE  NAME  PROTO  VIRTUAL-SERVER  REAL-SERVER       ACTIVE  INACTIVE",
      "2 min 5 s  in 12 min 55 s  default    web   TCP    10.96.0.10:80   10.244.1.12:8080       1         0",
      "2 min 5 s  none            -          -     TCP    10.96.0.10:80   10.244.1.12:8080       1         0",
    ]);
  });
});
