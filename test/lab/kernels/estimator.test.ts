/** Tests the IPVS estimator's CPUs and priority on a kernel with est_cpulist and est_nice (Linux 6.2 or later). */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { nodeSetUp } from "../../golden/node-set-up.ts";
import { ClusterNode, type NodeSettings } from "../../support/cluster-node.ts";
import { withNetworkNamespace } from "../../support/netns/network-namespace.ts";
import { assertNotLogged } from "../../support/not-logged.ts";
import { endpointSlice, service } from "../../support/objects.ts";

const folder = "/proc/sys/net/ipv4/vs";

function sysctl(name: string): string {
  return readFileSync(`${folder}/${name}`, "utf8").trim();
}

/** `CPUS NICE` of each estimator kernel thread. Their names are `ipvs-e:NUMBER:NUMBER`. */
function threads(): readonly string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && textOf(`${name}/comm`).startsWith("ipvs-e:"))
    .map((pid) => {
      const cpus = /^Cpus_allowed_list:\s*(.*)$/m.exec(textOf(`${pid}/status`))?.[1];
      // `nice` is the 17th field after the name in parentheses; see proc_pid_stat(5).
      return `${cpus} ${textOf(`${pid}/stat`).split(") ")[1]?.split(" ")[16]}`;
    });
}

/** A file's text. Empty if the process has exited. */
function textOf(path: string): string {
  try {
    return readFileSync(`/proc/${path}`, "utf8");
  } catch {
    return "";
  }
}

function settings(kubeIpvs: Readonly<Record<string, unknown>>): NodeSettings {
  return { kubeIpvs: { trafficMetrics: "service", ...kubeIpvs } };
}

describe("the estimator's settings on this kernel", () => {
  it("start threads with the configured CPU and priority, and stop them", async () => {
    await withNetworkNamespace("estimator", nodeSetUp, async () => {
      const own = { runEstimation: "on", estimatorCpus: "0", estimatorNice: "5" };
      const node = await ClusterNode.build([service(), endpointSlice()], settings(own));
      try {
        await node.start();
        assert.deepEqual(["est_cpulist", "est_nice", "run_estimation"].map(sysctl), [
          "0",
          "5",
          "1",
        ]);
        await node.until("a thread runs as configured", () => threads().includes("0 5"));
        assertNotLogged(
          node.tail(1_000),
          "Skipping sysctl that the kernel does not have",
          "Cannot set IPVS estimator",
        );
        node.configure(settings({ runEstimation: "off" }));
        await node.until("it is disabled", () => sysctl("run_estimation") === "0");
        assert.equal(sysctl("est_nice"), "5", "unset values are unchanged");
        await node.until("no thread is left", () => threads().length === 0);
      } finally {
        await node.close();
      }
    });
  });

  it("that the kernel rejects are logged, and the program starts", async () => {
    await withNetworkNamespace("estimator", nodeSetUp, async () => {
      const node = await ClusterNode.build(
        [service(), endpointSlice()],
        settings({ estimatorCpus: "4000" }),
      );
      try {
        await node.start();
        const line = node.lines().find(({ msg }) => msg === "Cannot set IPVS estimator");
        assert.match(String(line?.["err"]), /est_cpulist/);
      } finally {
        await node.close();
      }
    });
  });
});
