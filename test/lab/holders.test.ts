/**
 * Two Services claim the same external IP, with the built program on a real kernel. The owner must keep the address
 * while the program runs, across restarts, and if the program is killed.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { toServerKey } from "../../src/state/virtual-server.ts";
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

const address = "198.51.100.7";
const key = toServerKey(`TCP ${address}:80`);

interface Claimant {
  readonly name: string;
  readonly clusterIp: string;
  readonly pod: string;
  readonly created: string;
}
const young: Claimant = {
  name: "young",
  clusterIp: "10.96.0.22",
  pod: "10.244.2.2",
  created: "2026-02-02T00:00:00Z",
};
const old: Claimant = {
  name: "old",
  clusterIp: "10.96.0.21",
  pod: "10.244.2.1",
  created: "2020-01-01T00:00:00Z",
};

function claiming({ name, clusterIp, created }: Claimant, isClaiming = true): ApiObject {
  return service({
    name,
    clusterIps: [clusterIp],
    metadata: { creationTimestamp: created },
    spec: isClaiming ? { externalIPs: [address] } : {},
  });
}

function sliceOf({ name, pod }: Claimant): ApiObject {
  return endpointSlice({ name: `${name}-a`, service: name, endpoints: [pod] });
}

/** Functions that read from the kernel which Services have the address. */
const servedIn: Readonly<Record<"ipvs" | "iptables", () => readonly string[]>> = {
  ipvs: () => {
    const lines = shell("ipvsadm -Sn").split("\n");
    const real = lines.filter((line) => line.startsWith(`-a -t ${address}:80 `));
    const isServed = ({ pod }: Claimant): boolean =>
      real.some((line) => line.includes(` -r ${pod}:8080 `) && !line.trimEnd().endsWith("-w 0"));
    return [young, old].filter(isServed).map(({ name }) => name);
  },
  iptables: () => {
    const lines = shell("iptables-save -t nat").split("\n");
    const leading = lines.filter((line) => line.startsWith(`-A KUBE-SERVICES -d ${address}/32 `));
    return leading.flatMap((line) => /default\/(\w+):http external IP/.exec(line)?.[1] ?? []);
  },
};

for (const mode of ["ipvs", "iptables"] as const) {
  describe(`${mode} mode: an address that a younger Service owns`, () => {
    const namespace = `holders-${mode}`;
    let node: ClusterNode;
    before(async () => {
      createNetworkNamespace(namespace, nodeSetUp);
      enterNetworkNamespace(namespace);
      node = await ClusterNode.build(
        [claiming(young), sliceOf(young), claiming(old, false), sliceOf(old)],
        { mode },
      );
      await node.start();
    });
    after(async () => {
      await node.close();
      leaveNetworkNamespace();
      removeNetworkNamespace(namespace);
    });

    const served = servedIn[mode];

    function isServed(...services: readonly Claimant[]): void {
      const names = services.map(({ name }) => name);
      assert.deepEqual(served(), names, node.tail());
    }

    function conflictCount(): Promise<number> {
      const labels = { reason: "claimed-by-another-service" };
      return node.metric("kube_ipvs_frontend_conflicts", labels);
    }

    async function hasConflict(): Promise<void> {
      await node.until("the conflict is counted", async () => (await conflictCount()) === 1);
    }

    async function hasNoConflict(): Promise<void> {
      await node.until("no conflict is left", async () => (await conflictCount()) === 0);
    }

    it("stays with its owner if an older Service is edited to claim it, which an Event explains", async () => {
      isServed(young);
      node.api.apply(claiming(old));
      await hasConflict();
      isServed(young);
      const note = `AddressClaimed Service old: node node-1: ${key} is served for Service default/young, which claimed it first; `;
      await node.until("the conflict is an Event", () =>
        node.events().some((text) => text.startsWith(note)),
      );
    });

    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      it(`stays with its owner across a restart by ${signal}`, async () => {
        await node.until("the record is written", () => node.holders().has(key));
        await node.stop(signal);
        await node.start();
        await hasConflict();
        isServed(young);
      });
    }

    it("stays with its owner across a restart without the record", async () => {
      await node.stop();
      node.loseRecord();
      await node.start();
      await hasConflict();
      isServed(young);
    });

    it("stays with its owner if the conflict arises while the program is stopped", async () => {
      node.api.apply(claiming(old, false));
      await hasNoConflict();
      await node.stop();
      node.api.apply(claiming(old));
      await node.start();
      await hasConflict();
      isServed(young);
    });

    it("stays with its owner if the program is killed during the conflict", async () => {
      for (let time = 0; time < 3; time += 1) {
        node.api.apply(claiming(old, false));
        await hasNoConflict();
        node.api.apply(claiming(old));
        // The test does not wait, so each kill happens at a different moment of the sync.
        await new Promise((resolve) => setTimeout(resolve, time * 20));
        await node.stop("SIGKILL");
        await node.start();
        await hasConflict();
        isServed(young);
      }
    });

    it("moves to the other Service when the owner stops claiming it, and stays there across a restart", async () => {
      node.api.apply(claiming(young, false));
      await node.until("the older one is served", () => served().join() === "old");
      await hasNoConflict();
      node.api.apply(claiming(young));
      await hasConflict();
      isServed(old);
      await node.stop("SIGKILL");
      await node.start();
      await hasConflict();
      isServed(old);
    });

    it("moves to the next Service when its owner is deleted", async () => {
      node.api.delete(claiming(old), sliceOf(old));
      await node.until("the younger one is served", () => served().join() === "young");
      await hasNoConflict();
      node.api.apply(sliceOf(old), claiming(old));
      await hasConflict();
      isServed(young);
    });
  });
}
