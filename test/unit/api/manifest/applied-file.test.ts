import assert from "node:assert/strict";
import { it } from "node:test";
import { withAppliedFile } from "../../../../src/api/manifest/applied-file.ts";
import type { Refusal } from "../../../../src/api/source.ts";
import { MemorySource } from "../../../support/memory-source.ts";
import { endpointSlice, service, servicePort } from "../../../support/objects.ts";
import { RecordingListener } from "../../../support/recording-listener.ts";

const stored = service({
  type: "NodePort",
  metadata: { creationTimestamp: "2026-01-01T00:00:00Z" },
  ports: [servicePort({ nodePort: 30080 })],
});
const other = service({ name: "other", clusterIps: ["10.96.0.11"] });

async function applied(
  text: string,
): Promise<RecordingListener & { readonly invalid: readonly Refusal[] }> {
  const source = new MemorySource();
  for (const object of [stored, other, endpointSlice()]) source.apply(object as never);
  const listener = new RecordingListener();
  const invalid: Refusal[] = [];
  const refuse = (refused: Refusal): void => void invalid.push(refused);
  await withAppliedFile(source, { name: "web.yaml", text }, { refuse }).start(listener);
  return Object.assign(listener, { invalid });
}

it("replaces a Service, which keeps its cluster IP, node port and age", async () => {
  const { services, slices, invalid } = await applied(`
kind: Service
apiVersion: v1
metadata: { name: web, annotations: { kube-ipvs.io/scheduler: wlc } }
spec: { type: NodePort, ports: [{ name: http, port: 80 }, { name: new, port: 81 }] }
---
kind: Deployment
`);
  const web = services.get("default/web");
  assert.deepEqual(invalid, []);
  assert.deepEqual(web?.clusterIps, ["10.96.0.10"]);
  assert.deepEqual(
    web?.ports.map(({ port, nodePort }) => [port, nodePort]),
    [
      [80, 30080],
      [81, 0],
    ],
  );
  assert.equal(web?.createdAtSeconds, Date.parse("2026-01-01T00:00:00Z") / 1000);
  assert.deepEqual(web?.annotations, { "kube-ipvs.io/scheduler": "wlc" });
  assert.deepEqual(services.get("default/other")?.clusterIps, ["10.96.0.11"]);
  assert.deepEqual([...slices.keys()], ["default/web-a"]);
});

it("adds objects, and a new Service is the youngest", async () => {
  const added = [
    service({ name: "new", clusterIps: ["10.96.0.12"] }),
    endpointSlice({ service: "new", endpoints: ["10.244.1.20"] }),
  ];
  const { services, slices } = await applied(JSON.stringify({ kind: "List", items: added }));
  const age = (name: string): number => services.get(name)?.createdAtSeconds ?? 0;
  assert.ok(age("default/new") > age("default/web"));
  assert.deepEqual([...slices.keys()], ["default/web-a", "default/new-a"]);
});

it("removes a Service that is headless in the file", async () => {
  const { services } = await applied(JSON.stringify(service({ spec: { clusterIP: "None" } })));
  assert.deepEqual([...services.keys()], ["default/other"]);
});

it("reports a new Service without a cluster IP", async () => {
  const { services, invalid } = await applied(
    "kind: Service\nmetadata: { name: new }\nspec: { ports: [{ port: 1 }] }",
  );
  assert.equal(services.has("default/new"), false);
  assert.deepEqual(
    invalid.map(({ reason, subject }) => [reason, subject]),
    [["missing-cluster-ip", "default/new"]],
  );
});

it("throws if the file is invalid or contains nothing to apply", async () => {
  await assert.rejects(applied("a: ["), /^Error: web\.yaml:1:\d+: /);
  await assert.rejects(
    applied("kind: Deployment"),
    /web\.yaml: contains no Service or EndpointSlice$/,
  );
});
