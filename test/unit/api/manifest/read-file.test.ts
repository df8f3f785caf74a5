import assert from "node:assert/strict";
import { rm, symlink, truncate, utimes } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { TextPool } from "../../../../src/api/decode/flat-text.ts";
import { type ManifestFile, readManifestFile } from "../../../../src/api/manifest/read-file.ts";
import { service } from "../../../support/objects.ts";
import { ManifestFolder, startedSource } from "./folder.ts";

const cases: readonly {
  readonly name: string;
  readonly text: string;
  readonly services?: readonly string[];
  readonly messages: readonly string[];
}[] = [
  {
    name: "a minimal Service needs nothing that an API server adds",
    text: "kind: Service\nmetadata: {name: a}\nspec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}\n",
    services: ["default/a"],
    messages: [],
  },
  {
    name: "a value that is not a Kubernetes object",
    text: "---\nfoo: 1\n",
    messages: [
      "Cannot use manifest a.yaml:2: an object is not a Kubernetes object: it has no kind",
    ],
  },
  {
    name: "text",
    text: "hello\n",
    messages: ['Cannot use manifest a.yaml:1: "hello" is not a Kubernetes object: it has no kind'],
  },
  {
    name: "an old API version",
    text: "apiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice\n",
    messages: [
      'Cannot use apiVersion of manifest a.yaml:1: "discovery.k8s.io/v1beta1" is not a supported API version',
    ],
  },
  {
    name: "a Service in another API group is ignored",
    text: "apiVersion: serving.knative.dev/v1\nkind: Service\n",
    messages: [],
  },
  {
    name: "a Service without a cluster IP yet",
    text: "kind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80}]}\n",
    messages: [
      'Cannot use spec.clusterIP of Service default/a: "" is not a cluster IP, and kube-ipvs does not ' +
        'allocate cluster IPs; set an IP address or "None" (a.yaml:1)',
    ],
  },
  {
    name: "an ExternalName Service needs none",
    text: "kind: Service\nmetadata: {name: a}\nspec: {type: ExternalName}\n",
    messages: [],
  },
  {
    name: "an object without a name",
    text: "kind: Service\nmetadata: {}\n",
    messages: [
      "Cannot use metadata.name of Service default/: an absent value is not a valid name: at most 253 letters, " +
        "digits, dots, dashes and underscores (a.yaml:1)",
    ],
  },
  {
    name: "an invalid cluster IP",
    text: "kind: Service\nmetadata: {name: a}\nspec: {clusterIP: 10.96.0.256, ports: [{port: 80}]}\n",
    messages: [
      'Cannot use spec.clusterIPs[0] of Service default/a: "10.96.0.256" is not an IP address (a.yaml:1)',
      "Cannot use Service default/a: it has no valid cluster IP (a.yaml:1)",
    ],
  },
  {
    name: "port 0 and an unknown protocol, next to a valid port",
    text:
      "kind: Service\nmetadata: {name: a}\nspec:\n  clusterIP: 10.96.0.1\n  ports:\n" +
      "  - {name: a, port: 80}\n  - {name: b, port: 0}\n  - {name: c, port: 82, protocol: ICMP}\n",
    services: ["default/a"],
    messages: [
      "Cannot use spec.ports[1].port of Service default/a: 0 is not a port number from 1 to 65535 (a.yaml:1)",
      'Cannot use spec.ports[2].protocol of Service default/a: "ICMP" is not one of TCP, UDP, SCTP (a.yaml:1)',
    ],
  },
  {
    name: "a slice port without a number",
    text:
      "kind: EndpointSlice\naddressType: IPv4\nports: [{name: a}]\n" +
      "metadata: {name: a-1, labels: {kubernetes.io/service-name: a}}\n",
    messages: [
      "Cannot use ports[0].port of EndpointSlice default/a-1: an absent value is not a port number; " +
        "EndpointSlice ports without a number, which mean all ports, are not supported (a.yaml:1)",
    ],
  },
  {
    name: "a port as text",
    text: 'kind: Service\nmetadata: {name: a}\nspec: {clusterIP: 10.96.0.1, ports: [{port: "80"}]}\n',
    messages: [
      'Cannot use spec.ports[0].port of Service default/a: "80" is not a port number from 1 to 65535 (a.yaml:1)',
      "Cannot use Service default/a: it has no valid port (a.yaml:1)",
    ],
  },
];

describe("the message for a mistake in a manifest", () => {
  for (const { name, text, services = [], messages } of cases) {
    it(name, async (test) => {
      const folder = await ManifestFolder.make(test, { "a.yaml": text });
      const { told } = await startedSource(test, folder);
      assert.deepEqual([...told.services.keys()], services);
      assert.deepEqual(told.takeRefusals(), messages);
    });
  }

  it("a file that is too large", async (test) => {
    const folder = await ManifestFolder.make(test, { "a.yaml": "" });
    await truncate(join(folder.path, "a.yaml"), 16 * 1024 * 1024 + 1);
    const { source, told } = await startedSource(test, folder);
    const message = "Cannot use manifest a.yaml: it is larger than 16 MiB: 16777217 bytes";
    assert.deepEqual(told.takeRefusals(), [message]);
    await source.refresh();
    assert.equal(source.invalidObjects()[0]?.message, message);
    await truncate(join(folder.path, "a.yaml"), 0);
    await source.refresh();
    assert.deepEqual(source.invalidObjects(), []);
  });

  it("a file that cannot be read", async (test) => {
    const folder = await ManifestFolder.make(test);
    // Nothing is mapped at address 0, so reading this file fails even for root.
    await symlink("/proc/self/mem", join(folder.path, "a.yaml"));
    const { source, told } = await startedSource(test, folder);
    const message = "Cannot use manifest a.yaml: it cannot be read: EIO: i/o error";
    assert.deepEqual(told.takeRefusals(), [message]);
    await folder.write("a.yaml", JSON.stringify(service({ ports: [] })));
    await source.refresh();
    assert.equal(source.invalidObjects()[0]?.subject, "default/web");
    await rm(join(folder.path, "a.yaml"));
    await symlink("/proc/self/mem", join(folder.path, "a.yaml"));
    await source.refresh();
    assert.deepEqual(
      source.invalidObjects().map((one) => one.message),
      [message],
    );
    assert.deepEqual([...told.services.keys()], []);
  });
});

describe("a file that was read before", () => {
  const into = { refuse: (): void => {}, texts: new TextPool() };
  const serviceText = (name: string): string => JSON.stringify(service({ name }));

  it("is read again despite its timestamps if it was recently modified", async (test) => {
    const folder = await ManifestFolder.make(test, { "a.yaml": serviceText("old") });
    const read = (last?: ManifestFile): Promise<ManifestFile | undefined> =>
      readManifestFile({ folder: folder.path, name: "a.yaml", nowMs: Date.now() }, last, into);
    const old = await read();
    await folder.write("a.yaml", serviceText("new"));
    const current = await read();
    assert.ok(old !== undefined && current !== undefined);
    // Simulates a second change within the file system's timestamp resolution.
    const sameStamp = { ...old, stamp: current.stamp };
    const namesAfter = async (wasYoung: boolean): Promise<readonly string[] | undefined> =>
      (await read({ ...sameStamp, wasYoung }))?.objects.map(({ name }) => name);
    assert.deepEqual(await namesAfter(true), ["default/new"]);
    assert.deepEqual(await namesAfter(false), ["default/old"]);
  });

  it("is not reported again if only its time changed", async (test) => {
    const folder = await ManifestFolder.make(test, { "a.yaml": "no: object\n" });
    const { source, told } = await startedSource(test, folder);
    assert.equal(told.takeRefusals().length, 1);
    await utimes(join(folder.path, "a.yaml"), 1, 1);
    await source.refresh();
    assert.deepEqual(told.takeRefusals(), []);
  });
});
