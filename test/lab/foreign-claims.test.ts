/**
 * Uses the built program to test a Service that claims a third-party virtual server. The virtual server must be kept,
 * and the operator must be informed. The Service must be served as soon as the third party removes the virtual server.
 */
import assert from "node:assert/strict";
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
import { type ApiObject, endpointSlice, service, servicePort } from "../support/objects.ts";

const namespace = "claims";
const bystander: readonly ApiObject[] = [service(), endpointSlice({ endpoints: ["10.244.2.11"] })];

function objectsOf(name: string, clusterIp: string, port = servicePort()): readonly ApiObject[] {
  return [
    service({
      name,
      type: "nodePort" in port ? "NodePort" : "ClusterIP",
      clusterIps: [clusterIp],
      ports: [port],
    }),
    endpointSlice({ name: `${name}-a`, service: name, endpoints: ["10.244.2.98"] }),
  ];
}

interface Claim {
  readonly name: string;
  readonly clusterIp: string;
  readonly port?: Readonly<Record<string, unknown>>;
  /** Address and port of the foreign virtual server, as `ipvsadm` options. */
  readonly place: string;
  /** The set entry that would mark the virtual server as kube-ipvs's. */
  readonly entry: string;
  readonly boundAddress?: string;
}

/** A foreign virtual server that exists before the program starts, or is created while it runs. */
const before98: Claim = {
  name: "claims-older",
  clusterIp: "10.96.0.98",
  place: "10.96.0.98:80",
  entry: "add KUBE-CLUSTER-IP 10.96.0.98,tcp:80",
  boundAddress: "10.96.0.98",
};
const while99: Claim = {
  name: "claims-newer",
  clusterIp: "10.96.0.99",
  place: "10.96.0.99:80",
  entry: "add KUBE-CLUSTER-IP 10.96.0.99,tcp:80",
  boundAddress: "10.96.0.99",
};
/** A foreign virtual server on the same address as one of kube-ipvs's. */
const beside: Claim = {
  name: "claims-beside",
  clusterIp: "10.96.0.10",
  port: servicePort({ port: 81 }),
  place: "10.96.0.10:81",
  entry: "add KUBE-CLUSTER-IP 10.96.0.10,tcp:81",
};
const claims: readonly Claim[] = [before98, while99, beside];

/** This address has a foreign virtual server, so the node port is served only at the other node address. */
const nodePortPlace = "192.168.10.11:30098";

let node: ClusterNode;
before(async () => {
  createNetworkNamespace(namespace, nodeSetUp);
  enterNetworkNamespace(namespace);
  makeForeign(before98.place);
  makeForeign(nodePortPlace);
  node = await ClusterNode.build(bystander);
  await node.start();
});
after(async () => {
  await node.close();
  leaveNetworkNamespace();
  removeNetworkNamespace(namespace);
});

function makeForeign(place: string): void {
  shell(`ipvsadm -A -t ${place} -s wlc; ipvsadm -a -t ${place} -r ${foreignReal(place)} -g -w 5`);
}

function foreignText(place: string): string {
  return `-A -t ${place} -s wlc\n-a -t ${place} -r ${foreignReal(place)} -g -w 5\n`;
}

/** With gatewaying, the kernel gives a real server the port of its virtual server. */
function foreignReal(place: string): string {
  return `10.50.1.1:${place.split(":")[1]}`;
}

/** The `ipvsadm -Sn` lines of one virtual server. */
function serverText(place: string): string {
  const lines = shell("ipvsadm -Sn").split("\n");
  return lines
    .filter((line) => line.includes(` -t ${place} `))
    .map((line) => `${line.trimEnd()}\n`)
    .join("");
}

function isUntouched({ place, entry, boundAddress }: Claim): void {
  assert.equal(serverText(place), foreignText(place), node.tail());
  assert.ok(!shell("ipset save").includes(entry), node.tail());
  if (boundAddress === undefined) return;
  const bound = shell("ip -o address show kube-ipvs0");
  assert.ok(!bound.includes(` ${boundAddress}/`), bound);
}

function conflictCount(): Promise<number> {
  return node.metric("kube_ipvs_frontend_conflicts", { reason: "foreign-virtual-server" });
}

/** Number of set entries that the running program has added. */
function addedEntryCount(): Promise<number> {
  return node.metric("kube_ipvs_kernel_changes_total", { kind: "entry-add" });
}

/** Whether the conflict is in the running program's log and in an Event. */
async function isReported(name: string, place: string, mark: number): Promise<void> {
  const lines = (): readonly unknown[] =>
    node
      .lines()
      .slice(mark)
      .filter((line) => line.level === "warn" && JSON.stringify(line).includes(`TCP ${place}`));
  await node.until("the conflict is logged", () => lines().length > 0);
  assert.equal(lines().length, 1, JSON.stringify(lines()));
  assert.match(JSON.stringify(lines()[0]), new RegExp(`default/${name}\\b`));
  const events = (): readonly string[] =>
    node.events().filter((text) => text.includes(`ForeignVirtualServer Service ${name}: `));
  await node.until("the conflict is an Event", () => events().length > 0);
  assert.ok(events()[0]?.includes(place), events().join("\n"));
}

/** Changes another Service, and waits until the kernel has the change. */
async function changeElsewhere(address: string): Promise<void> {
  node.api.apply(endpointSlice({ endpoints: [address] }));
  await node.until("the other change is in the kernel", () =>
    serverText("10.96.0.10:80").includes(`-r ${address}:8080 -m -w 1`),
  );
}

describe("a Service that claims a foreign virtual server", () => {
  for (const claim of claims) {
    const { name, clusterIp, port, place, entry } = claim;
    describe(name, () => {
      const objects = objectsOf(name, clusterIp, port);

      it("leaves the virtual server unchanged, writes no set entry for it, and reports it", async () => {
        if (claim !== before98) makeForeign(place);
        const mark = node.lines().length;
        const entryCount = await addedEntryCount();
        node.api.apply(...objects);
        await changeElsewhere("10.244.2.12");
        await node.until("the conflict is counted", async () => (await conflictCount()) === 1);
        isUntouched(claim);
        assert.equal(await addedEntryCount(), entryCount, node.tail());
        await isReported(name, place, mark);
      });

      it("leaves the virtual server unchanged during later changes and verifications", async () => {
        await changeElsewhere("10.244.2.13");
        await node.verified(2);
        isUntouched(claim);
        assert.equal(await conflictCount(), 1);
      });

      for (const signal of ["SIGTERM", "SIGKILL"] as const) {
        it(`leaves the virtual server unchanged across a restart by ${signal}`, async () => {
          await node.stop(signal);
          const mark = node.lines().length;
          await node.start();
          isUntouched(claim);
          await node.until("the conflict is counted", async () => (await conflictCount()) === 1);
          await isReported(name, place, mark);
          await node.verified(1);
          isUntouched(claim);
        });
      }

      it("is served as soon as the third party removes the virtual server", async () => {
        shell(`ipvsadm -D -t ${place}`);
        const ours = `-A -t ${place} -s rr\n-a -t ${place} -r 10.244.2.98:8080 -m -w 1\n`;
        await node.until("the Service is served", () => serverText(place) === ours);
        assert.ok(shell("ipset save").includes(entry));
        await node.until("no conflict is left", async () => (await conflictCount()) === 0);
        node.api.delete(...objects);
        await node.until("it is removed with its Service", () => serverText(place) === "");
      });
    });
  }
});

describe("a node port that a foreign virtual server uses on one node address", () => {
  const objects = objectsOf("node-port", "10.96.0.97", servicePort({ nodePort: 30_098 }));
  const served = `-A -t 172.16.5.11:30098 -s rr\n-a -t 172.16.5.11:30098 -r 10.244.2.98:8080 -m -w 1\n`;

  it("is served only on the other addresses, even after restarts", async () => {
    const mark = node.lines().length;
    node.api.apply(...objects);
    await node.until("it is served on the other addresses", () => {
      return serverText("172.16.5.11:30098") === served;
    });
    await isReported("node-port", nodePortPlace, mark);
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      await node.stop(signal);
      await node.start();
      await node.verified(2);
      assert.equal(serverText(nodePortPlace), foreignText(nodePortPlace), node.tail());
      assert.equal(serverText("172.16.5.11:30098"), served, node.tail());
    }
  });

  it("leaves the virtual server in place when the Service or kube-ipvs is removed", async () => {
    node.api.delete(...objects);
    await node.until("the node port is removed", () => serverText("172.16.5.11:30098") === "");
    assert.equal(serverText(nodePortPlace), foreignText(nodePortPlace));
    await node.stop();
    const printed = await node.cleanUp();
    assert.equal(shell("ipvsadm -Sn | sed 's/ *$//'"), foreignText(nodePortPlace), printed);
  });
});
