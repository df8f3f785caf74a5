/** Tests folders that contain Pods instead of EndpointSlices. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { stringify } from "yaml";
import type { EndpointSliceRecord } from "../../../../src/api/objects.ts";
import { endpointSlice, pod, service } from "../../../support/objects.ts";
import type { RecordingListener } from "../../../support/recording-listener.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { ManifestFolder, startedSource } from "./folder.ts";

const yaml = (...objects: readonly unknown[]): string =>
  objects.map((object) => stringify(object)).join("---\n");
const selecting = (options: Parameters<typeof service>[0] = {}): ReturnType<typeof service> =>
  service({ ...options, spec: { selector: { app: "web" }, ...options.spec } });
const slices = (told: RecordingListener): readonly EndpointSliceRecord[] => [
  ...told.slices.values(),
];
const endpoints = (told: RecordingListener): readonly string[] =>
  slices(told).flatMap((slice) =>
    slice.endpoints.map(
      ({ address, isReady }) =>
        `${slice.service} ${address}:${slice.ports.map(({ port }) => port).join()} ${isReady}`,
    ),
  );

describe("a folder with Pods", () => {
  it("needs no EndpointSlices, because a Service's endpoints are the Pods that it selects", async (test) => {
    const folder = await ManifestFolder.make(test, {
      "service.yaml": yaml(selecting()),
      "pods.yaml": yaml(
        pod(),
        pod({ name: "web-1", ips: ["10.244.1.11"], isReady: false }),
        pod({ name: "db-0", ips: ["10.244.1.12"], labels: { app: "db" } }),
      ),
    });
    const { source, told } = await startedSource(test, folder);
    assert.deepEqual(endpoints(told), [
      "default/web 10.244.1.10:8080 true",
      "default/web 10.244.1.11:8080 false",
    ]);
    assert.deepEqual(told.refusals, []);
    told.take();
    await source.refresh();
    assert.deepEqual(told.take(), [], "nothing changed");
    await folder.write("pods.yaml", yaml(pod()));
    await source.refresh();
    assert.deepEqual(endpoints(told), ["default/web 10.244.1.10:8080 true"]);
    await folder.remove("pods.yaml");
    await source.refresh();
    assert.deepEqual(endpoints(told), []);
  });

  it("can contain a few handwritten lines, or Pods that kubectl printed", async (test) => {
    const byHand = {
      kind: "Pod",
      metadata: { name: "a", labels: { app: "web" } },
      status: { podIP: "10.0.0.1" },
    };
    const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-5d4", uid: "u" };
    const printed = pod({ name: "web-5d4-x", metadata: { ownerReferences: [owner] } });
    const ended = pod({ name: "job", ips: ["10.0.0.7"], status: { phase: "Succeeded" } });
    const starting = pod({ name: "new", ips: [] });
    const folder = await ManifestFolder.make(test, {
      "service.yaml": yaml(selecting()),
      "hand.yaml": yaml(byHand),
      "printed.json": JSON.stringify({ kind: "List", items: [printed, ended, starting] }),
    });
    const { told } = await startedSource(test, folder);
    assert.deepEqual(endpoints(told), [
      "default/web 10.0.0.1:8080 true",
      "default/web 10.244.1.10:8080 true",
    ]);
  });

  it("yields both families and named target ports, and nothing for a headless Service", async (test) => {
    const ports = [{ name: "http", port: 80, targetPort: "web" }];
    const both = selecting({ clusterIps: ["10.96.0.1", "fd00:96::1"], ports });
    const headless = selecting({ name: "headless", clusterIps: ["None"] });
    const ips = ["10.244.1.10", "fd00:244::10"];
    const folder = await ManifestFolder.make(test, {
      "all.yaml": yaml(both, headless, pod({ ips })),
    });
    const { told } = await startedSource(test, folder);
    assert.deepEqual(endpoints(told), [
      "default/web 10.244.1.10:8080 true",
      "default/web fd00:244::10:8080 true",
    ]);
  });

  it("keeps a Service's slices if the folder contains any, and logs this once", async (test) => {
    const log = new RecordingLogger();
    const folder = await ManifestFolder.make(test, { "all.yaml": yaml(selecting(), pod()) });
    const { source, told } = await startedSource(test, folder, log);
    await folder.write("slice.yaml", yaml(endpointSlice({ endpoints: ["10.0.0.9"] })));
    await source.refresh();
    assert.deepEqual(endpoints(told), ["default/web 10.0.0.9:8080 true"]);
    await folder.write("more.yaml", yaml(pod({ name: "web-1", ips: ["10.244.1.11"] })));
    await source.refresh();
    assert.deepEqual(endpoints(told), ["default/web 10.0.0.9:8080 true"]);
    assert.deepEqual(
      log.lines.map(({ event, keys }) => [event, keys["service"]]),
      [["Service has EndpointSlices in the manifest directory, ignoring its Pods", "default/web"]],
    );
    await folder.remove("slice.yaml");
    await source.refresh();
    assert.equal(endpoints(told).length, 2);
  });

  it("renames a generated slice if the folder gets a slice with the same name", async (test) => {
    const folder = await ManifestFolder.make(test, { "all.yaml": yaml(selecting(), pod()) });
    const { source, told } = await startedSource(test, folder);
    const [made] = [...told.slices.keys()];
    const name = made?.replace("default/", "") ?? "";
    await folder.write(
      "slice.yaml",
      yaml(endpointSlice({ name, service: "other", endpoints: ["10.0.0.9"] })),
    );
    await source.refresh();
    assert.deepEqual(endpoints(told).toSorted(), [
      "default/other 10.0.0.9:8080 true",
      "default/web 10.244.1.10:8080 true",
    ]);
    await folder.remove("slice.yaml");
    await source.refresh();
    assert.deepEqual(endpoints(told), ["default/web 10.244.1.10:8080 true"]);
  });

  it("reports invalid fields of a Pod and uses the rest", async (test) => {
    const odd = pod({
      name: "odd",
      status: { podIPs: [{ ip: "10.0.0.300" }, { ip: "10.0.0.3" }] },
    });
    const folder = await ManifestFolder.make(test, { "all.yaml": yaml(selecting(), odd) });
    const { told } = await startedSource(test, folder);
    assert.deepEqual(endpoints(told), ["default/web 10.0.0.3:8080 true"]);
    assert.deepEqual(
      told.refusals.map(({ kind, field, reason }) => [kind, field, reason]),
      [["pods", "status.podIPs[0].ip", "invalid-pod-address"]],
    );
  });
});
