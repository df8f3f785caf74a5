/**
 * Runs `kube-ipvs-e2e`, the acceptance test for clusters, on a two-node cluster with the permissions in its manifests.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, beforeEach, describe, it } from "node:test";
import { shell } from "../support/netns/network-namespace.ts";
import { Program } from "../support/program.ts";
import { SmallCluster } from "../support/small-cluster/small-cluster.ts";

const program = join(import.meta.dirname, "../../dist/kube-ipvs-e2e");
const namespace = "kube-ipvs-e2e";

/** Timeout that detects hangs. A busy lab is slow. */
const limitMs = 400_000;

let cluster: SmallCluster;

before(async () => {
  cluster = await SmallCluster.start();
  await cluster.daemonsReady();
});

beforeEach(() => cluster.applyTestNamespace());

after(() => cluster.stop());

function start(...flags: readonly string[]): Program {
  return new Program([`--kubeconfig=${cluster.kubeconfig}`, ...flags], [], { program });
}

function assertNothingLeft(): void {
  assert.deepEqual(cluster.namespaces, []);
  for (const path of ["/api/v1/pods", "/api/v1/services"]) {
    assert.deepEqual(cluster.names(path, namespace), []);
  }
}

describe("kube-ipvs-e2e", () => {
  it("passes, prints a row for each check, and leaves nothing behind", async (test) => {
    const run = start();
    const { code } = await run.ends(limitMs);
    test.diagnostic(run.output);
    assert.equal(code, 0, `${run.output}\n${cluster.daemonOutput}`);
    assert.match(run.output, /^16 ok, 0 failed, 0 not applicable$/m);
    assertNothingLeft();
  });

  it("tests only one node", async () => {
    const run = start("--node=node-2", "--skip=restart,draining");
    const { code } = await run.ends(limitMs);
    assert.equal(code, 0, run.output);
    assert.match(run.output, /^Testing 1 daemon, with pods on node-2$/m);
    assertNothingLeft();
  });

  it("reports failures, and leaves nothing behind if it is interrupted", async () => {
    const drop = "OUTPUT -d 10.244.1.0/24 -p udp -j DROP";
    shell(`ip netns exec node-1 iptables -I ${drop}`);
    const run = start("--nodes=1", "--wait=1");
    try {
      await run.prints(/^cluster-ip: failed$/m, limitMs);
      assert.match(run.output, /^Waiting for 3 pods in namespace kube-ipvs-e2e$/m);
      run.kill("SIGTERM");
      const { code } = await run.ends(limitMs);
      assert.equal(code, 2, run.output);
      assert.match(run.output, /^Error: Interrupted by SIGTERM$/m);
      assertNothingLeft();
    } finally {
      run.kill("SIGKILL");
      shell(`ip netns exec node-1 iptables -D ${drop}`);
    }
  });
});
