/** The operator's commands beside the built program, on a node where something is wrong on purpose. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { parseJson } from "../../src/base/parse-json.ts";
import type { ServiceRow, Status } from "../../src/daemon/operator/answers.ts";
import { Connection } from "../support/client-traffic.ts";
import { LabNode, until } from "../support/lab-node.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { type ApiObject, endpoint, endpointSlice, service } from "../support/objects.ts";
import { ip } from "../support/records.ts";

const [first, second] = [
  { name: "pod-1", address: "10.244.1.10" },
  { name: "pod-2", address: "10.244.1.20" },
];
const web = { protocol: "TCP", address: ip("10.96.0.10"), port: 80 } as const;
/** A third party's, on the address that a Service asks for. */
const foreign = "10.96.0.11:80";
/** The kernel takes no broadcast address for a real server: EINVAL. */
const broadcast = "192.168.10.255";

const one = endpoint(first.address, { nodeName: "node-1" });
const two = endpoint(second.address, { nodeName: "node-1" });
const notReady = endpoint("10.244.1.30", {
  nodeName: "node-2",
  conditions: { ready: false, serving: false, terminating: false },
});

function webOf(...endpoints: readonly ReturnType<typeof endpoint>[]): readonly ApiObject[] {
  return [service(), endpointSlice({ endpoints })];
}

const broken: readonly ApiObject[] = [
  service({ name: "api", clusterIps: ["10.96.0.11"] }),
  endpointSlice({ service: "api", endpoints: [second.address] }),
  service({ name: "bad", clusterIps: ["10.96.0.12"] }),
  endpointSlice({ service: "bad", endpoints: [second.address, broadcast] }),
];

interface Run {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

function kubeIpvs(...args: readonly string[]): Run {
  const path = join(import.meta.dirname, "../../dist/kube-ipvs");
  const { status, stdout, stderr } = spawnSync(path, args, { encoding: "utf8" });
  return { code: status, out: stdout, err: stderr };
}

function servicesOf(name: string): readonly ServiceRow[] {
  const { out } = kubeIpvs("services", name, "-o", "json");
  return (parseJson(out) as { readonly items: readonly ServiceRow[] }).items;
}

/** `10.244.1.10 drifted`; without a reason it takes connections. */
function endpointsOf(name: string): readonly string[] {
  const [row] = servicesOf(name);
  return (row?.endpoints ?? []).map(({ address, reason }) => `${address} ${reason ?? "-"}`);
}

describe("the operator's commands", () => {
  let node: LabNode;

  before(async () => {
    node = await LabNode.build([first, second]);
    node.apply(...webOf(one, two, notReady));
    await node.start(["--ipvs-sync-period=1h", "--kube-ipvs-verification-period=1h"]);
  });
  after(() => node.destroy());

  it("say that all is well, on a socket for root alone", (test) => {
    const { code, out } = kubeIpvs("status");
    test.diagnostic(out);
    assert.match(out, /^OK, 1 Service, last sync \d+ s ago, \d+\.\d ms\n/);
    assert.match(out, /^Virtual servers +1, and 0 foreign$/m);
    assert.equal(code, 0);
    assert.equal(statSync("/run/kube-ipvs/kube-ipvs.sock").mode & 0o777, 0o600);
  });

  it("show each endpoint of a Service with the connections that the kernel counts", async (test) => {
    const connection = await Connection.open(web.address, web.port, "echo");
    await connection.receives(1, 20_000);
    const { code, out } = kubeIpvs("services", "web");
    test.diagnostic(out);
    assert.equal(code, 0);
    assert.match(
      out,
      /^default +web +http +ClusterIP +TCP +10\.96\.0\.10:80 +cluster-ip +rr +- +Cluster +2\/2 /m,
    );
    assert.match(out, /^ +10\.244\.1\.30:8080 +node-2 +not-ready +no .* not-ready$/m);
    const active = servicesOf("web")[0]?.endpoints?.map((one) => one.activeConnections ?? 0) ?? [];
    assert.equal(
      active.reduce((sum, count) => sum + count, 0),
      1,
    );
    connection.reset();
    assert.equal(kubeIpvs("services", "-A", "-o", "name").out, "default/web\n");
  });

  it("find a real server that a third party removed, before it is repaired", () => {
    shell("ipvsadm -d -t 10.96.0.10:80 -r 10.244.1.20:8080");
    assert.deepEqual(endpointsOf("web"), [
      "10.244.1.10 -",
      "10.244.1.20 drifted",
      "10.244.1.30 not-ready",
    ]);
    shell("ipvsadm -a -t 10.96.0.10:80 -r 10.244.1.20:8080 -m");
  });

  it("say what the kernel refuses and what a third party has, and why the node is degraded", async (test) => {
    shell(`ipvsadm -A -t ${foreign} -s wlc; ipvsadm -a -t ${foreign} -r 172.30.0.9:80 -m`);
    node.apply(...webOf(one, two, notReady), ...broken);
    await node.program.prints(/Kernel refused a change/);
    await node.program.prints(/Foreign virtual server keeps an address of a Service/);
    assert.deepEqual(endpointsOf("bad"), ["10.244.1.20 -", `${broadcast} EINVAL`]);
    const [api] = servicesOf("api");
    assert.equal(api?.reason, "foreign-virtual-server");
    const { code, out } = kubeIpvs("status");
    test.diagnostic(out);
    test.diagnostic(kubeIpvs("services").out);
    assert.match(out, /^Virtual servers +2, and 1 foreign$/m);
    assert.equal(code, 1);
    assert.match(
      out,
      /^Degraded: 1 object refused by the kernel \(EINVAL\) \(for \d+ s\); 1 virtual server of Services not served \(foreign-virtual-server\)/,
    );
    const status = parseJson(kubeIpvs("status", "-o", "json").out) as Status;
    assert.deepEqual(status.refusedObjects[0]?.services, ["default/bad"]);
    assert.equal(status.conflicts[0]?.service, "default/api");
  });

  it("list what drains, with its connections", async (test) => {
    shell(`ipvsadm -D -t ${foreign}`);
    node.apply(...webOf(one));
    await node.hasWeights(web, "pod-1 1");
    assert.equal(kubeIpvs("drains").out, "Nothing drains\n");
    const connection = await Connection.open(web.address, web.port, "echo");
    await connection.receives(1, 20_000);
    node.apply(...webOf(two));
    await node.hasWeights(web, "pod-1 0, pod-2 1");
    const { code, out } = kubeIpvs("drains");
    test.diagnostic(out);
    test.diagnostic(kubeIpvs("services", "web").out);
    assert.equal(code, 0);
    assert.match(
      out,
      /^AGE .*\n\d+ s +in 1[45] min.* default +web +TCP +10\.96\.0\.10:80 +10\.244\.1\.10:8080 +1 +0\n$/,
    );
    assert.deepEqual(endpointsOf("web"), ["10.244.1.20 -", "10.244.1.10 endpoint-removed"]);
    connection.reset();
    await until(
      async () => kubeIpvs("status").code === 0,
      20_000,
      async () => kubeIpvs("status").out,
    );
  });

  it("say that no daemon runs, and show what a start would find", async (test) => {
    await node.stop("SIGKILL");
    const status = kubeIpvs("status");
    test.diagnostic(status.out);
    assert.match(status.out, /^Not running: .*\(ECONNREFUSED\)\n$/);
    assert.equal(status.code, 2);
    assert.equal(kubeIpvs("drains").code, 2);
    const { code, out, err } = kubeIpvs("services", "web", ...node.flags);
    test.diagnostic(out);
    assert.match(err, /No kube-ipvs on this node answers .*: showing what a start would find/);
    assert.match(out, /^ +10\.244\.1\.20:8080 +node-1 +ready +yes +- +1 +0 +\d+ /m);
    assert.equal(code, 0);
  });
});
