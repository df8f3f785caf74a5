import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Nodes } from "../../../src/api/source.ts";
import { compareStates, differenceText } from "../../golden/kernel-state.ts";
import { runCommand } from "../../support/fake-kernel/operator-commands.ts";
import { FakeNode } from "../../support/fake-node.ts";
import type { NamedObject } from "../../support/memory-source.ts";
import {
  type ApiObject,
  endpoint,
  endpointSlice,
  node,
  service,
  servicePort,
} from "../../support/objects.ts";

type Flags = Readonly<Record<string, string>>;

/** Every object from the builders has a name. */
const named = (objects: readonly ApiObject[]): readonly NamedObject[] =>
  objects as readonly unknown[] as readonly NamedObject[];

/** Returns a settled node with a NodePort Service. */
async function nodeWith(flags: Flags): Promise<FakeNode> {
  const fake = new FakeNode(flags);
  fake.source.apply(
    ...named([
      node(),
      service({ type: "NodePort", ports: [servicePort({ nodePort: 30080 })] }),
      endpointSlice({ endpoints: ["10.244.1.10", "10.244.2.11"] }),
    ]),
  );
  await fake.start();
  await fake.comeToRest();
  return fake;
}

const changes: readonly (readonly [name: string, flags: Flags])[] = [
  ["the scheduler", { "ipvs-scheduler": "mh" }],
  ["masquerade-all", { "masquerade-all": "true" }],
  ["the masquerade bit", { "iptables-masquerade-bit": "7" }],
  ["the cluster's networks", { "cluster-cidr": "10.9.0.0/16" }],
  ["the detection of local traffic", { "detect-local-mode": "NodeCIDR" }],
  ["node port addresses", { "nodeport-addresses": "172.16.0.0/16" }],
  [
    "all of these",
    { "ipvs-scheduler": "mh", "masquerade-all": "true", "nodeport-addresses": "primary" },
  ],
];

describe("a configuration that is applied without a restart", () => {
  for (const [name, flags] of changes) {
    it(`leads to the same kernel state as a start with it: ${name}`, async () => {
      const changed = await nodeWith({});
      const before = await changed.state();
      await changed.reconfigure(flags);
      await changed.comeToRest();
      const fresh = await nodeWith(flags);
      assert.notDeepEqual(await changed.state(), before);
      const differences = compareStates(await fresh.state(), await changed.state());
      assert.equal(differences.map(differenceText).join("\n"), "");
      await changed.stop();
      await fresh.stop();
    });
  }

  for (const name of ["kube-ipvs-verification-period", "ipvs-sync-period"]) {
    it(`changes the verification period: ${name}`, async () => {
      const long = { "kube-ipvs-verification-period": "1h", "ipvs-sync-period": "1h" };
      const fake = await nodeWith(long);
      const before = await fake.state();
      assert.ok(runCommand(fake.kernel, "ipvsadm -D -t 10.96.0.10:80"));
      await fake.wait(60_000);
      assert.notDeepEqual(await fake.state(), before);
      await fake.reconfigure({ ...long, [name]: "2s" });
      await fake.settle();
      assert.ok(runCommand(fake.kernel, "ipvsadm -D -t 10.96.0.10:80"));
      await fake.wait(10_000);
      await fake.settle();
      assert.deepEqual(await fake.state(), before);
      await fake.stop();
    });
  }

  it("gives a third-party virtual server to a Service with `delete`, and keeps later ones after changing back", async () => {
    const fake = new FakeNode({});
    assert.ok(runCommand(fake.kernel, "ipvsadm -A -t 10.96.0.10:80 -s wlc"));
    fake.source.apply(...named([node(), service(), endpointSlice({ endpoints: ["10.244.2.11"] })]));
    await fake.start();
    await fake.comeToRest();
    assert.doesNotMatch(String((await fake.state())["ipvs"]), /10\.244\.2\.11/);
    await fake.reconfigure({ "kube-ipvs-foreign-virtual-servers": "delete" });
    await fake.comeToRest();
    assert.match(
      String((await fake.state())["ipvs"]),
      /-t 10\.96\.0\.10:80 -r 10\.244\.2\.11:8080/,
    );
    await fake.reconfigure({});
    assert.ok(runCommand(fake.kernel, "ipvsadm -A -t 10.96.0.11:80 -s wlc"));
    const next = service({ name: "next", clusterIps: ["10.96.0.11"] });
    fake.source.apply(...named([next, endpointSlice({ service: "next" })]));
    await fake.comeToRest();
    assert.match(String((await fake.state())["ipvs"]), /-A -t 10\.96\.0\.11:80 -s wlc$/m);
    await fake.stop();
  });

  it("is applied even if it arrives while the kernel is read for the previous one", async () => {
    const periods = { "ipvs-sync-period": "1h", "kube-ipvs-verification-period": "1h" };
    const excluding = { ...periods, "ipvs-exclude-cidrs": "10.96.0.0/16" };
    const fake = await nodeWith(excluding);
    fake.source.delete(...named([service()]));
    await fake.settle();
    assert.match(String((await fake.state())["ipvs"]), /10\.96\.0\.10:80/);
    const reloaded = Promise.withResolvers<void>();
    const { ipvs } = fake.kernel;
    const list = ipvs.listVirtualServers.bind(ipvs);
    ipvs.listVirtualServers = async () => {
      ipvs.listVirtualServers = list;
      const found = await list();
      await fake.reconfigure(periods);
      reloaded.resolve();
      return found;
    };
    await fake.reconfigure({ ...excluding, "masquerade-all": "true" });
    await fake.settle();
    await reloaded.promise;
    await fake.comeToRest();
    assert.doesNotMatch(String((await fake.state())["ipvs"]), /10\.96\.0\.10:80/);
    await fake.stop();
  });

  it("starts to read Node weights if it needs them", async () => {
    const fake = new FakeNode({ "ipvs-scheduler": "wrr" });
    const listNodes = async (): Promise<Nodes> =>
      new Map([["node-2", { addresses: [], podCidrs: [], weight: 5 }]]);
    Object.assign(fake.source, { listNodes });
    const endpoints = [endpoint("10.244.2.11", { nodeName: "node-2" })];
    fake.source.apply(...named([node(), service(), endpointSlice({ endpoints })]));
    await fake.start();
    await fake.comeToRest();
    assert.match(String((await fake.state())["ipvs"]), /10\.244\.2\.11:8080 -m -w 1$/m);
    await fake.reconfigure({ "ipvs-scheduler": "wrr", "kube-ipvs-weights": "node" });
    await fake.comeToRest();
    assert.match(String((await fake.state())["ipvs"]), /10\.244\.2\.11:8080 -m -w 5$/m);
    await fake.stop();
  });

  it("changes nothing if the kernel lacks the scheduler", async () => {
    const fake = await nodeWith({});
    const before = await fake.state();
    const flags = { "ipvs-scheduler": "nonsense", "masquerade-all": "true" };
    await assert.rejects(fake.reconfigure(flags), /nonsense/);
    await fake.comeToRest();
    assert.deepEqual(await fake.state(), before);
    await fake.stop();
  });
});
