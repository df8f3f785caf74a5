/**
 * Tests several network namespaces with a hundred or more virtual servers each, as with nested nodes. The program in
 * one namespace must see all of its own virtual servers and no others, which /proc/net/ip_vs does not guarantee.
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { nodeSetUp } from "../golden/node-set-up.ts";
import { ClusterNode } from "../support/cluster-node.ts";
import { clusterIpOf, nameOf, positions, serviceOf, sliceOf } from "../support/many-services.ts";
import {
  createNetworkNamespace,
  enterNetworkNamespace,
  leaveNetworkNamespace,
  removeNetworkNamespace,
  shell,
} from "../support/netns/network-namespace.ts";

const namespace = "inner";
const others = ["other-1", "other-2"];
const serviceCount = 120;
const endpointCount = 2;
const staleCount = 40;
const restoreFile = "/run/other-virtual-servers";

/** Creates the same number of virtual servers at different addresses in each other namespace. */
function fillOthers(): void {
  const lines = positions(serviceCount).flatMap((index) => {
    const place = `10.97.${1 + Math.floor(index / 250)}.${1 + (index % 250)}:80`;
    return [`-A -t ${place} -s rr`, `-a -t ${place} -r 10.51.0.1:80 -m -w 1`];
  });
  writeFileSync(restoreFile, `${lines.join("\n")}\n`);
  for (const other of others) shell(`ip netns exec ${other} ipvsadm -R < ${restoreFile}`);
}

let node: ClusterNode;
before(async () => {
  createNetworkNamespace(namespace, nodeSetUp);
  for (const other of others) createNetworkNamespace(other);
  enterNetworkNamespace(namespace);
  fillOthers();
  const objects = positions(serviceCount).flatMap((index) => [
    serviceOf(index),
    sliceOf(index, positions(endpointCount)),
  ]);
  node = await ClusterNode.build(objects);
  await node.start();
});
after(async () => {
  await node.close();
  leaveNetworkNamespace();
  for (const name of [namespace, ...others]) removeNetworkNamespace(name);
});

const drifts = (kind?: string): Promise<number> =>
  node.metric("kube_ipvs_drift_total", kind === undefined ? {} : { kind });
const writes = (): Promise<number> => node.metric("kube_ipvs_kernel_changes_total");

/** One line for each virtual and real server of this namespace. */
function serverLines(): readonly string[] {
  return shell("ipvsadm -Sn")
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "")
    .sort();
}

/** Waits for this many verifications while another namespace changes, which reorders the kernel's lists. */
async function verifications(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) {
    const ipvsadm = `ip netns exec ${others[0]} ipvsadm`;
    const place = `10.97.1.${1 + turn}:80`;
    shell(`${ipvsadm} -D -t ${place}; ${ipvsadm} -A -t ${place} -s wlc`);
    await node.verified(1);
  }
}

describe("with two other namespaces that have a hundred virtual servers each", () => {
  it("verifications find no drift and write nothing", async () => {
    await node.until("everything exists", () => {
      return serverLines().length === serviceCount * (1 + endpointCount);
    });
    const [driftBefore, writesBefore] = [await drifts(), await writes()];
    const count = 2;
    await verifications(count);
    // Each verification repairs one sysctl, which shows that it ran.
    assert.equal((await drifts()) - driftBefore, count, node.tail());
    assert.equal((await writes()) - writesBefore, count, node.tail());
    assert.equal(await drifts("sysctl"), count);
  });

  it("a missing virtual server is repaired, and nothing else is written", async () => {
    const wanted = serverLines();
    const [first = "", last = ""] = [clusterIpOf(0), clusterIpOf(serviceCount - 1)];
    // Waits for the end of a verification, because a read in progress could see a virtual server that has just lost its
    // real servers.
    await node.verified(1);
    const [writesBefore, driftBefore] = [await writes(), await drifts()];
    const real = wanted.find((line) => line.startsWith(`-a -t ${last}:80 `))?.split(" ")[4];
    shell(`ipvsadm -D -t ${first}:80; ipvsadm -d -t ${last}:80 -r ${real}`);
    await node.until("everything exists again", () => serverLines().join() === wanted.join());
    assert.equal(await drifts("virtual-server"), 1);
    assert.equal(await drifts("real-server"), 1);
    assert.equal((await drifts()) - driftBefore, 2, node.tail());
    // The virtual server with its real servers, and the single real server.
    assert.equal((await writes()) - writesBefore, 1 + endpointCount + 1, node.tail());
  });

  it("a restart writes nothing, and finds outdated virtual servers", async () => {
    await node.stop();
    await node.start();
    assert.equal(await writes(), 0, node.tail());
    await node.stop();
    for (const index of positions(staleCount)) {
      // Chooses positions across the whole list, because an inconsistent read never misses the beginning of the list.
      const at = index * Math.floor(serviceCount / staleCount);
      node.api.delete(serviceOf(at), sliceOf(at, []));
    }
    await node.start();
    const left = (serviceCount - staleCount) * (1 + endpointCount);
    await node.until("outdated ones are gone", () => serverLines().length === left);
    assert.ok(!serverLines().some((line) => line.includes(` ${clusterIpOf(0)}:80 `)), nameOf(0));
  });
});
