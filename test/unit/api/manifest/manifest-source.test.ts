import assert from "node:assert/strict";
import { mkdir, rm, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { stringify } from "yaml";
import { ManifestSource } from "../../../../src/api/manifest/manifest-source.ts";
import { systemClock } from "../../../../src/base/clock.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { endpointSlice, node, service } from "../../../support/objects.ts";
import { RecordingListener } from "../../../support/recording-listener.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { ManifestFolder, startedSource } from "./folder.ts";

const yaml = (...objects: readonly unknown[]): string =>
  objects.map((object) => stringify(object)).join("---\n");
const synced = ["synced nodes", "synced services", "synced endpointslices"];

describe("a folder of manifests", () => {
  it("reports all objects and that they are complete", async (test) => {
    const folder = await ManifestFolder.make(test, {
      "web.yaml": yaml(service(), endpointSlice()),
      "node.json": JSON.stringify(node()),
      "deployment.yml": "kind: Deployment\nmetadata: {name: x}\n",
      "notes.txt": "not a manifest",
      ".hidden.yaml": "also: not\nit: [",
    });
    const { told } = await startedSource(test, folder);
    const objects = ["+nodes node-1", "+services default/web", "+endpointslices default/web-a"];
    assert.deepEqual(told.take(), [...objects, ...synced]);
    assert.deepEqual(told.refusals, []);
  });

  it("orders Services by file and by position in a file, instead of by age", async (test) => {
    const old = service({ name: "a", metadata: { creationTimestamp: "2020-01-01T00:00:00Z" } });
    const folder = await ManifestFolder.make(test, {
      "20.yaml": yaml(old),
      "10.yaml": yaml(node(), service({ name: "c" }), service({ name: "b" })),
      "10.json": JSON.stringify(service({ name: "d" })),
    });
    const { told } = await startedSource(test, folder);
    const services = [...told.services.values()];
    const order = services.toSorted((one, other) =>
      (one.manifestOrder ?? "") < (other.manifestOrder ?? "") ? -1 : 1,
    );
    assert.deepEqual(
      order.map(({ name }) => name),
      ["default/d", "default/c", "default/b", "default/a"],
    );
    assert.deepEqual(
      new Set(services.map(({ createdAtSeconds }) => createdAtSeconds)),
      new Set([0]),
    );
  });

  it("logs once which subfolders and kinds are not read", async (test) => {
    const folder = await ManifestFolder.make(test, {
      "a.yaml": yaml({ kind: "Deployment", metadata: { name: "x" } }, service()),
      "b.yaml": "kind: Deployment\n---\nkind: Service\napiVersion: serving.knative.dev/v1\n",
    });
    await mkdir(join(folder.path, "more.yaml"));
    await mkdir(join(folder.path, "..data"));
    const log = new RecordingLogger();
    const { source } = await startedSource(test, folder, log);
    await folder.write("c.yaml", "kind: Deployment\n");
    await source.refresh();
    assert.deepEqual(
      log.lines.map(({ level, event, keys }) => [level, event, ...Object.values(keys)]),
      [
        ["info", "Ignoring subdirectory of the manifest directory", "more.yaml"],
        ["info", "Ignoring manifest objects of an unsupported kind", "Deployment", "a.yaml:1"],
        [
          "info",
          "Ignoring manifest objects of an unsupported kind",
          "Service (serving.knative.dev/v1)",
          "b.yaml:3",
        ],
      ],
    );
  });

  it("reports only its own Node", async (test) => {
    const folder = await ManifestFolder.make(test, {
      "nodes.yaml": yaml(node(), node({ name: "node-2" })),
    });
    const { told } = await startedSource(test, folder);
    assert.deepEqual([...told.nodes.keys()], ["node-1"]);
    // Other sources' objects must not be treated as this source's own.
    assert.deepEqual(
      [...(told.allNodes ?? [])].map(([name]) => name),
      ["node-1", "node-2"],
    );
  });

  it("reports only changed objects", async (test) => {
    const folder = await ManifestFolder.make(test, { "a.yaml": yaml(service(), endpointSlice()) });
    const { source, told } = await startedSource(test, folder);
    told.take();
    await source.refresh();
    assert.deepEqual(told.take(), []);
    const endpoints = ["10.244.1.10", "10.244.1.11"];
    await folder.write("a.yaml", yaml(service(), endpointSlice({ endpoints })));
    await source.refresh();
    assert.deepEqual(told.take(), ["~endpointslices default/web-a"]);
    await folder.write("a.yaml", yaml(endpointSlice({ endpoints })));
    await folder.write("b.yaml", yaml(service({ name: "b" })));
    await source.refresh();
    assert.deepEqual(told.take(), ["-services default/web", "+services default/b"]);
  });

  it("reports a Service that becomes headless as a removal", async (test) => {
    const folder = await ManifestFolder.make(test, { "a.yaml": yaml(service()) });
    const { source, told } = await startedSource(test, folder);
    told.take();
    await folder.write("a.yaml", yaml(service({ clusterIps: ["None"] })));
    await source.refresh();
    assert.deepEqual(told.take(), ["-services default/web"]);
    assert.deepEqual(told.takeRefusals(), []);
  });

  it("reports removals when it is emptied", async (test) => {
    const folder = await ManifestFolder.make(test, { "a.yaml": yaml(service()) });
    const { source, told } = await startedSource(test, folder);
    told.take();
    await folder.remove("a.yaml");
    await source.refresh();
    assert.deepEqual(told.take(), ["-services default/web"]);
  });

  it("keeps its objects if it disappears, and continues when it is back", async (test) => {
    const folder = await ManifestFolder.make(test, { "a.yaml": yaml(service()) });
    const { source, told } = await startedSource(test, folder);
    told.take();
    await rm(folder.path, { recursive: true });
    assert.equal(source.problem(), undefined);
    await source.refresh();
    assert.deepEqual(told.take(), []);
    assert.match(
      source.problem()?.message ?? "",
      /^Cannot read manifest directory \S+: ENOENT.*; its last objects are kept; restore the directory$/,
    );
    await mkdir(folder.path);
    await folder.write("a.yaml", yaml(service({ name: "b" })));
    await source.refresh();
    assert.equal(source.problem(), undefined);
    assert.deepEqual(told.take(), ["-services default/web", "+services default/b"]);
  });

  it("uses the first of two objects with the same name, and reports the other once", async (test) => {
    const folder = await ManifestFolder.make(test, {
      "b.yaml": yaml(service({ clusterIps: ["10.96.0.2"] })),
      "a.yaml": yaml(service({ clusterIps: ["10.96.0.1"] })),
    });
    const { source, told } = await startedSource(test, folder);
    assert.deepEqual(told.services.get("default/web")?.clusterIps, ["10.96.0.1"]);
    const message = "Cannot use manifest b.yaml:1: it is already defined: default/web, in a.yaml:1";
    assert.deepEqual(told.takeRefusals(), [message]);
    await folder.write("c.yaml", yaml(service({ name: "c" })));
    await source.refresh();
    assert.deepEqual(told.takeRefusals(), []);
    assert.deepEqual(
      source.invalidObjects().map((one) => one.message),
      [message],
    );
    await folder.remove("a.yaml");
    await source.refresh();
    assert.deepEqual(source.invalidObjects(), []);
    assert.deepEqual(told.services.get("default/web")?.clusterIps, ["10.96.0.2"]);
  });

  it("keeps the objects of a file that becomes invalid, and reports the position of the error", async (test) => {
    const folder = await ManifestFolder.make(test, { "a.yaml": yaml(service()) });
    const { source, told } = await startedSource(test, folder);
    told.take();
    await folder.write("a.yaml", "kind: Service\nmetadata:\n  name: [unfinished\n");
    await source.refresh();
    assert.deepEqual(told.take(), []);
    const [message = ""] = told.takeRefusals();
    assert.match(
      message,
      /^Cannot use manifest a\.yaml:4:1: it cannot be read as YAML or JSON: .* end with a \]$/,
    );
    const subjects = source.invalidObjects().map(({ subject }) => subject);
    assert.deepEqual(subjects, ["a.yaml:4:1"]);
    await folder.write("a.yaml", yaml(service({ clusterIps: ["10.96.0.11"] })));
    await source.refresh();
    assert.deepEqual(told.take(), ["~services default/web"]);
    assert.deepEqual(source.invalidObjects(), []);
  });

  it("keeps the objects of a file that was truncated to be rewritten", async (test) => {
    const folder = await ManifestFolder.make(test, { "a.yaml": yaml(service()) });
    const { source, told } = await startedSource(test, folder);
    told.take();
    const path = join(folder.path, "a.yaml");
    await truncate(path, 0);
    await source.refresh();
    await source.refresh();
    assert.deepEqual(told.take(), []);
    const message = "Cannot use manifest a.yaml: it is empty: delete it to remove its last objects";
    assert.deepEqual(told.takeRefusals(), [message]);
    assert.deepEqual(
      source.invalidObjects().map((one) => one.message),
      [message],
    );
    await writeFile(path, yaml(service({ name: "b" })));
    await source.refresh();
    assert.deepEqual(told.take(), ["-services default/web", "+services default/b"]);
    assert.deepEqual(source.invalidObjects(), []);
    await truncate(path, 0);
    await source.refresh();
    await folder.remove("a.yaml");
    await source.refresh();
    assert.deepEqual(told.take(), ["-services default/b"]);
  });

  it("reports the file and line of an invalid field", async (test) => {
    const ports = [
      { name: "a", port: 0 },
      { name: "b", port: 80 },
    ];
    const folder = await ManifestFolder.make(test, {
      "a.yaml": yaml(service({ name: "first" }), service({ ports })),
    });
    const { told } = await startedSource(test, folder);
    const [message = ""] = told.takeRefusals();
    const want =
      /^Cannot use spec\.ports\[0\]\.port of Service default\/web: 0 is not a port number .* \(a\.yaml:\d\d\)$/;
    assert.match(message, want);
    assert.equal(told.services.get("default/web")?.ports.length, 1);
  });

  it("follows links, as in a mounted ConfigMap", async (test) => {
    const folder = await ManifestFolder.make(test);
    await mkdir(join(folder.path, "..1"));
    await mkdir(join(folder.path, "..2"));
    await writeFile(join(folder.path, "..1", "a.yaml"), yaml(service()));
    await writeFile(join(folder.path, "..2", "a.yaml"), yaml(service({ name: "b" })));
    await symlink("..1", join(folder.path, "..data"));
    await symlink("..data/a.yaml", join(folder.path, "a.yaml"));
    const { source, told } = await startedSource(test, folder);
    assert.deepEqual(told.take(), ["+services default/web", ...synced]);
    await rm(join(folder.path, "..data"));
    await symlink("..2", join(folder.path, "..data"));
    await source.refresh();
    assert.deepEqual(told.take(), ["-services default/web", "+services default/b"]);
  });

  it("ignores folders and dangling links with names of manifests", async (test) => {
    const folder = await ManifestFolder.make(test);
    await mkdir(join(folder.path, "a.yaml"));
    await symlink("nowhere", join(folder.path, "b.yaml"));
    const { told } = await startedSource(test, folder);
    assert.deepEqual(told.take(), synced);
    assert.deepEqual(told.refusals, []);
  });

  it("detects a second change within one timestamp", async (test) => {
    const folder = await ManifestFolder.make(test, { "a.yaml": yaml(service({ name: "aaa" })) });
    const path = join(folder.path, "a.yaml");
    const soon = new Date(Date.now() + 3_600_000);
    await utimes(path, soon, soon);
    const { source, told } = await startedSource(test, folder);
    await writeFile(path, yaml(service({ name: "bbb" })));
    await utimes(path, soon, soon);
    await source.refresh();
    assert.deepEqual([...told.services.keys()], ["default/bbb"]);
  });

  it("reports nothing after it was stopped", async (test) => {
    const folder = await ManifestFolder.make(test, { "a.yaml": yaml(service()) });
    const { source, told } = await startedSource(test, folder);
    told.take();
    await folder.remove("a.yaml");
    const reading = source.refresh();
    await source.stop();
    await reading;
    assert.deepEqual(told.take(), []);
  });

  it("does not start without a folder, and says what to do", async () => {
    const dependencies = { clock: systemClock, log: silentLogger };
    const source = new ManifestSource(dependencies, { folder: "/no/such", nodeName: "node-1" });
    await assert.rejects(source.start(new RecordingListener()), {
      message:
        "Cannot read manifest directory /no/such: ENOENT: no such file or directory; " +
        "create it, or set --manifests to another directory",
    });
  });

  it("detects a change by itself", async (test) => {
    const folder = await ManifestFolder.make(test, { "a.yaml": yaml(service()) });
    const dependencies = { clock: systemClock, log: silentLogger };
    const source = new ManifestSource(dependencies, {
      folder: folder.path,
      nodeName: "node-1",
      rescanMs: 600_000,
    });
    const told = new RecordingListener();
    test.after(() => source.stop());
    await source.start(told);
    await folder.write("a.yaml", yaml(service({ name: "b" })));
    await told.until(() => told.services.has("default/b"));
    assert.deepEqual([...told.services.keys()], ["default/b"]);
  });

  it("reads again to detect changes that the watch misses", async (test) => {
    const outside = await ManifestFolder.make(test, { "a.yaml": yaml(service()) });
    const folder = await ManifestFolder.make(test);
    await symlink(join(outside.path, "a.yaml"), join(folder.path, "a.yaml"));
    const dependencies = { clock: systemClock, log: silentLogger };
    const source = new ManifestSource(dependencies, {
      folder: folder.path,
      nodeName: "node-1",
      rescanMs: 20,
    });
    const told = new RecordingListener();
    test.after(() => source.stop());
    await source.start(told);
    await outside.write("a.yaml", yaml(service({ name: "b" })));
    await told.until(() => told.services.has("default/b"));
    assert.deepEqual([...told.services.keys()], ["default/b"]);
  });
});
