/**
 * Damages kernel state while other Services change continuously. The verification must find and repair the damage
 * within its period, even if changes never stop, and report the damage as drift.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { ClusterNode } from "../support/cluster-node.ts";
import {
  createNetworkNamespace,
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";
import { type ApiObject, endpointSlice, service } from "../support/objects.ts";
import { patienceMs } from "../support/patience.ts";

const namespace = "busy";
/**
 * Additional time for a busy machine. It does not hide failures, because a change that could delay the repair would be
 * followed by many others that delay it again.
 */
const sysctl = "net.ipv4.vs.expire_nodest_conn";

/** Cluster IPs of three Services with damaged state, and of one that changes. */
const damagedIps = ["10.96.0.21", "10.96.0.22", "10.96.0.23"];
const pods = ["10.244.2.1", "10.244.2.2"];
const objects: readonly ApiObject[] = [
  ...damagedIps.flatMap((ip, index) => [
    service({ name: `still-${index}`, clusterIps: [ip] }),
    endpointSlice({ name: `still-${index}-a`, service: `still-${index}`, endpoints: pods }),
  ]),
  service({ name: "busy", clusterIps: ["10.96.0.40"] }),
  busySlice(0),
];

function busySlice(turn: number): ApiObject {
  const endpoints = [`10.244.${3 + Math.floor(turn / 200)}.${1 + (turn % 200)}`];
  return endpointSlice({ name: "busy-a", service: "busy", endpoints });
}

/** The number of the last change that reached the kernel, or -1. */
function turnInKernel(): number {
  const [, third, fourth] =
    /^-a -t 10\.96\.0\.40:80 -r 10\.244\.(\d+)\.(\d+):/m.exec(shell("ipvsadm -Sn")) ?? [];
  return third === undefined ? -1 : (Number(third) - 3) * 200 + Number(fourth) - 1;
}

const damage = [
  "ipvsadm -D -t 10.96.0.21:80",
  "ipvsadm -d -t 10.96.0.22:80 -r 10.244.2.1:8080",
  "ipvsadm -e -t 10.96.0.22:80 -r 10.244.2.2:8080 -m -w 7",
  "ipset del KUBE-CLUSTER-IP 10.96.0.23,tcp:80; ipset add KUBE-CLUSTER-IP 10.9.9.9,tcp:80",
  `sysctl -qw ${sysctl}=0`,
].join("\n");
const expectedDrift = { "virtual-server": 1, "real-server": 1, weight: 1, entry: 2, sysctl: 1 };

/** The state of the damaged Services, excluding the one that changes. */
function state(): string {
  const text = shell("ipvsadm -Sn | sort; ipset save KUBE-CLUSTER-IP | sort")
    .split("\n")
    .filter((line) => /10\.96\.0\.2|10\.9\.9\.9/.test(line));
  return [...text, readFileSync(`/proc/sys/${sysctl.replaceAll(".", "/")}`, "utf8")].join("\n");
}

/** The interval between changes to the other Service, and the period within which damage must be repaired. */
const paces = [
  { changeMs: 1_000, verificationSeconds: 4 },
  { changeMs: 5_000, verificationSeconds: 6 },
  { changeMs: 20_000, verificationSeconds: 22 },
];

for (const { changeMs, verificationSeconds } of paces) {
  describe(`with a change every ${changeMs / 1000} s and a verification every ${verificationSeconds} s`, () => {
    let node: ClusterNode;
    let wanted: string;
    let changes: NodeJS.Timeout;
    let turn = 0;

    before(async () => {
      createNetworkNamespace(namespace, nodeSetUp);
      enterNetworkNamespace(namespace);
      node = await ClusterNode.build(objects, {
        kubeIpvs: { verificationPeriod: `${verificationSeconds}s`, manualWeights: "repair" },
      });
      await node.start();
      wanted = state();
      changes = setInterval(() => {
        turn += 1;
        node.api.apply(busySlice(turn));
      }, changeMs);
    });
    after(async () => {
      clearInterval(changes);
      await node.close();
      leaveNetworkNamespace();
      removeNetworkNamespace(namespace);
    });

    it("manual damage is repaired within the period and reported", async (test) => {
      // The damage may be repaired before the test sees it, but the counts below show that it existed.
      shell(damage);
      const limitMs = verificationSeconds * 1_000 + patienceMs;
      const elapsedMs = await node.until("all is repaired", () => state() === wanted, limitMs);
      test.diagnostic(`${elapsedMs.toFixed(0)} ms, ${turn} changes`);
      for (const [kind, count] of Object.entries(expectedDrift)) {
        const reported = (): Promise<number> => node.metric("kube_ipvs_drift_total", { kind });
        await node.until(
          `drift of kind ${kind} is counted`,
          async () => (await reported()) === count,
        );
      }
      assert.equal(await node.healthStatus(), 200);
    });

    it("changes were applied throughout the test", async () => {
      const before = turn;
      await node.until("a later change is in the kernel", () => turnInKernel() > before);
    });
  });
}
