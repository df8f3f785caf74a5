/**
 * Uses the built program to test which Service owns an external IP. This depends on the age of the claims, even after
 * restarts and reboots, and on the ports on which node processes listen.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { ClusterNode } from "../support/cluster-node.ts";
import {
  createNetworkNamespace,
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";
import { type ApiObject, endpointSlice, service, servicePort } from "../support/objects.ts";
import { Program } from "../support/program.ts";

const nodeAddress = "192.168.10.11";
const shared = "198.51.100.7";

interface Claimant {
  readonly name: string;
  readonly clusterIp: string;
  readonly created: string;
}
const young: Claimant = { name: "young", clusterIp: "10.96.0.22", created: "2026-02-02T00:00:00Z" };
const old: Claimant = { name: "old", clusterIp: "10.96.0.21", created: "2020-01-01T00:00:00Z" };

function claiming(
  { name, clusterIp, created }: Claimant,
  externalIPs: readonly string[],
  port = 80,
): ApiObject {
  return service({
    name,
    clusterIps: [clusterIp],
    ports: [servicePort({ port })],
    metadata: { creationTimestamp: created },
    spec: { externalIPs },
  });
}

const objects = [
  claiming(young, [shared]),
  claiming(old, []),
  ...[young, old].map(({ name }, index) =>
    endpointSlice({ service: name, endpoints: [`10.244.2.${index + 1}`] }),
  ),
];

const modes = ["ipvs", "iptables", "userspace"] as const;

/** The Services that are served at an address and port, according to the kernel. */
function servedAt(mode: (typeof modes)[number], address: string, port: number): readonly string[] {
  if (mode === "ipvs") {
    const lines = shell("ipvsadm -Sn").split("\n");
    const real = lines.filter((line) => line.startsWith(`-a -t ${address}:${port} `));
    return [young, old]
      .filter((_, index) => real.some((line) => line.includes(` -r 10.244.2.${index + 1}:8080 `)))
      .map(({ name }) => name);
  }
  const chain = mode === "iptables" ? "KUBE-SERVICES" : "KUBE-PORTALS-CONTAINER";
  const lines = shell("iptables-save -t nat")
    .split("\n")
    .filter((line) => line.startsWith(`-A ${chain} -d ${address}/32 `))
    .filter((line) => line.includes(`--dport ${port} `));
  return lines.flatMap((line) => /default\/(\w+):http/.exec(line)?.[1] ?? []);
}

for (const mode of modes) {
  describe(`external IPs in ${mode} mode`, () => {
    const namespace = `claims-${mode}`;
    let node: ClusterNode;
    const listeners: Program[] = [];

    /** Listens in this network namespace until the end. */
    async function listen(port: number): Promise<Program> {
      const script = `require("node:net").createServer().listen(${port}, "0.0.0.0", () => console.log("listening"))`;
      const program = new Program(["-e", script], [], { program: process.execPath });
      listeners.push(program);
      await program.prints(/listening/);
      return program;
    }

    async function isServed(address: string, port: number, names: readonly string[]) {
      await node.until(`${address}:${port} is served for ${names}`, () => {
        return servedAt(mode, address, port).join() === names.join();
      });
    }

    before(async () => {
      createNetworkNamespace(namespace, nodeSetUp);
      enterNetworkNamespace(namespace);
      shell("rm -rf /var/lib/kube-ipvs");
      await listen(10_250);
      node = await ClusterNode.build(objects, { mode });
      await node.start();
    });
    after(async () => {
      await node.close();
      for (const program of listeners) {
        program.kill("SIGKILL");
        await program.ends();
      }
      leaveNetworkNamespace();
      removeNetworkNamespace(namespace);
    });

    it("belong to the first claim across a restart and a reboot, even if the other Service is older", async () => {
      // The age of claims is recorded in whole seconds.
      await pause(1_100);
      node.api.apply(claiming(old, [shared]));
      const labels = { reason: "claimed-by-another-service" };
      const count = () => node.metric("kube_ipvs_frontend_conflicts", labels);
      await node.until("the conflict is counted", async () => (await count()) === 1);
      await isServed(shared, 80, ["young"]);
      await node.stop("SIGTERM");
      // A reboot removes kernel state and /run.
      shell(
        "ipvsadm -C; iptables -t nat -F; iptables -t filter -F; ip link del kube-ipvs0 || true",
      );
      node.loseRecord();
      await node.start();
      await isServed(shared, 80, ["young"]);
      await node.until("the conflict is counted", async () => (await count()) === 1);
    });

    it("are reported and not served at a port where a node process listens", async () => {
      node.api.apply(claiming(old, [nodeAddress], 10_250));
      const reason = { reason: "node-process-port" };
      const count = () => node.metric("kube_ipvs_frontend_conflicts", reason);
      await node.until("the claim is counted", async () => (await count()) === 1);
      assert.deepEqual(servedAt(mode, nodeAddress, 10_250), []);
      await node.until("it is an Event", () =>
        node
          .events()
          .some((text) => /^ReservedAddress Service old: .*192\.168\.10\.11:10250/.test(text)),
      );
    });

    it("stay unserved after a restart, even if no process listens at startup", async () => {
      await node.stop("SIGTERM");
      const [kubelet] = listeners.splice(0, 1);
      kubelet?.kill("SIGKILL");
      await kubelet?.ends();
      await node.start();
      const reason = { reason: "node-process-port" };
      const count = () => node.metric("kube_ipvs_frontend_conflicts", reason);
      await node.until("the claim is counted", async () => (await count()) === 1);
      assert.deepEqual(servedAt(mode, nodeAddress, 10_250), []);
    });

    it("are served at a port where no process listened, and remain served if one listens later", async () => {
      node.api.apply(claiming(old, [nodeAddress], 8_443));
      await isServed(nodeAddress, 8_443, ["old"]);
      await listen(8_443);
      node.api.apply(claiming({ ...old, name: "another", clusterIp: "10.96.0.23" }, []));
      await node.stop("SIGTERM");
      await node.start();
      await isServed(nodeAddress, 8_443, ["old"]);
    });

    it("have a record, which --cleanup removes", async () => {
      assert.match(shell("cat /var/lib/kube-ipvs/claims.json"), /198\.51\.100\.7/);
      await node.stop("SIGTERM");
      assert.match(await node.cleanUp(), /claims\.json/);
      assert.equal(shell("ls /var/lib/kube-ipvs"), "");
    });
  });
}
