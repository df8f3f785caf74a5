/** The acceptance test of a cluster, `kube-ipvs-e2e`, against a cluster of two nodes, with the rights of its manifests. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { shell } from "../support/netns/network-namespace.ts";
import { Program } from "../support/program.ts";
import { SmallCluster } from "../support/small-cluster/small-cluster.ts";

const program = join(import.meta.dirname, "../../dist/kube-ipvs-e2e");
const namespace = "kube-ipvs-e2e";

interface Report {
  readonly verdict: string;
  readonly checks: readonly {
    readonly check: string;
    readonly result: string;
    readonly detail: string;
  }[];
}

let cluster: SmallCluster;

before(async () => {
  cluster = await SmallCluster.start();
});

after(() => cluster.stop());

function start(...flags: readonly string[]): Program {
  return new Program([`--kubeconfig=${cluster.kubeconfig}`, ...flags], [], { program });
}

function podNames(): readonly string[] {
  return cluster.names("/api/v1/pods", namespace);
}

function assertNothingLeft(): void {
  assert.deepEqual(cluster.namespaces, []);
  for (const path of ["/api/v1/pods", "/api/v1/services"]) {
    assert.deepEqual(cluster.names(path, namespace), []);
  }
}

describe("kube-ipvs-e2e", () => {
  it("waits for daemons that are ready", async () => {
    const deadlineMs = performance.now() + 60_000;
    const isReady = (): boolean =>
      (cluster.daemonOutput.match(/First sync completed/g) ?? []).length >= 2;
    while (!isReady()) {
      assert.ok(performance.now() < deadlineMs, cluster.daemonOutput);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  });

  it("passes, each check with a row, and leaves nothing", async (test) => {
    const run = start();
    const { code } = await run.ends();
    test.diagnostic(run.output);
    assert.equal(code, 0, cluster.daemonOutput.split("\n").slice(-60).join("\n"));
    assert.match(run.output, /^16 ok, 0 failed, 0 not applicable$/m);
    assertNothingLeft();
  });

  it("fails where a node's packets are dropped, and says which", async () => {
    shell("ip netns exec node-2 iptables -I OUTPUT -d 10.244.1.0/24 -p udp -j DROP");
    const skipped =
      "daemons,node-port,session-affinity,headless,internal-policy,external-policy,dual-stack,hints,draining,restart,events,account,forbidden,kernel";
    const run = start(`--skip=${skipped}`, "--wait=5", "-o=json");
    const { code } = await run.ends();
    shell("ip netns exec node-2 iptables -D OUTPUT -d 10.244.1.0/24 -p udp -j DROP");
    const report = JSON.parse(run.output.slice(run.output.indexOf("{"))) as Report;
    assert.equal(report.verdict, "Failed");
    const row = report.checks.find(({ check }) => check === "cluster-ip");
    assert.equal(row?.result, "failed");
    assert.match(row?.detail ?? "", /^from node node-2 to 10\.96\.0\.\d+:80\/UDP: timeout/);
    assert.equal(code, 1);
    assertNothingLeft();
  });

  it("leaves nothing where it is broken off", async () => {
    const run = start();
    await run.prints(/Waiting for \d pods/);
    assert.notDeepEqual(podNames(), []);
    run.kill("SIGTERM");
    const { code } = await run.ends();
    assert.equal(code, 2);
    assert.match(run.output, /^Error: Broken off by SIGTERM$/m);
    assertNothingLeft();
  });
});
