import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Status } from "../../../../src/answer/answers.ts";
import { rendered } from "../../../../src/answer/render.ts";
import { statusView } from "../../../../src/answer/status-view.ts";
import { ManifestSource } from "../../../../src/api/manifest/manifest-source.ts";
import { errno } from "../../../../src/base/errno.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { answerTo } from "../../../../src/daemon/operator/routes.ts";
import { type StatusSources, statusOf } from "../../../../src/daemon/operator/status.ts";
import { ApiContact } from "../../../../src/daemon/report/api-contact.ts";
import { ProxyHealth } from "../../../../src/daemon/report/proxy-health.ts";
import { SyncHistory } from "../../../../src/daemon/report/sync-history.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import type { Operation } from "../../../support/fake-kernel/operations.ts";
import { FakeNode } from "../../../support/fake-node.ts";
import type { NamedObject } from "../../../support/memory-source.ts";
import { type ApiObject, endpointSlice, node, service } from "../../../support/objects.ts";
import { silentMetrics } from "../../../support/silent-metrics.ts";
import { ManifestFolder } from "../../api/manifest/folder.ts";

function apply(onNode: FakeNode, ...objects: readonly ApiObject[]): void {
  onNode.source.apply(...(objects as readonly unknown[] as readonly NamedObject[]));
}

function run<T>(steps: Generator<void, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** The status of a healthy node. Without `apiContact`, no request was made. */
function statusOn(
  onNode: FakeNode,
  apiContact?: ApiContact,
  more: Pick<StatusSources, "notReadyTaint" | "source"> = {},
): Status {
  const { view } = onNode;
  const { clock } = view;
  const config = new FakeNode({}).config;
  const health = new ProxyHealth(new FakeClock(), 60_000);
  for (const kind of ["nodes", "services", "endpointslices"] as const) health.listed(kind);
  health.updated("IPv4");
  const contact = apiContact ?? new ApiContact(clock, silentMetrics);
  const startedAtMs = clock.monotonicMs();
  return run(statusOf({ clock, config, health, apiContact: contact, ...more, startedAtMs, view }));
}

describe("a query before the first sync", () => {
  it("is answered with the resources that the sync is waiting for, and with the kernel state", async () => {
    const onNode = new FakeNode({});
    apply(onNode, node(), service(), endpointSlice({ endpoints: ["10.244.1.10"] }));
    await onNode.start();
    await onNode.settle();
    const clock = new FakeClock();
    const view = { ...onNode.view, history: new SyncHistory(clock) };
    const apiContact = new ApiContact(clock, silentMetrics);
    apiContact.apiRequestAnswered("GET", "10.0.0.1:6443", "<error>");
    await clock.advance(90_000);
    const { config } = new FakeNode({});
    const health = new ProxyHealth(clock, 60_000);
    for (const target of ["/v1/services?", "/v1/drains", "/v1/plan?name=web"]) {
      const answer = await answerTo(target, {
        clock,
        view: () => view,
        configuration: () => ({}),
        status: () => ({ clock, config, health, apiContact, startedAtMs: 0, view }),
      });
      assert.ok(answer.kind === "object" && answer.status === 503);
      assert.match(
        (answer.object as { readonly message: string }).message,
        /^Services have not been read yet: The first sync is waiting for the Node object, Services, EndpointSlices \(for .*\); API server 10\.0\.0\.1:6443 does not answer \(for 1 min 30 s\); the kernel still has 1 virtual server$/,
      );
    }
    await onNode.stop();
  });
});

describe("the status", () => {
  it("reports that the node still has the taint, and the reason", async () => {
    const onNode = new FakeNode({});
    apply(onNode, node(), service(), endpointSlice({ endpoints: ["10.244.1.10"] }));
    await onNode.start();
    await onNode.settle();
    const problem = { sinceMs: onNode.view.clock.monotonicMs(), message: "Cannot remove taint" };
    const { verdict, problems } = statusOn(onNode, undefined, { notReadyTaint: { problem } });
    assert.equal(verdict, "Degraded");
    assert.deepEqual(problems, [
      { reason: "taint-not-removed", message: "Cannot remove taint", sinceSeconds: 0 },
    ]);
    await onNode.stop();
  });

  it("is degraded while the manifests cannot be read", async () => {
    const onNode = new FakeNode({});
    apply(onNode, node(), service());
    await onNode.start();
    await onNode.settle();
    const { clock } = onNode.view;
    const [problem, startedAtMs] = [{ message: "Cannot read", sinceMs: clock.monotonicMs() }, 0];
    await onNode.wait(5_000);
    const sources = { clock, config: onNode.config, startedAtMs, view: onNode.view };
    const health = new ProxyHealth(new FakeClock(), 60_000);
    for (const kind of ["nodes", "services", "endpointslices"] as const) health.listed(kind);
    health.updated("IPv4");
    const apiContact = new ApiContact(clock, silentMetrics);
    const source = { problem: () => problem };
    const { summary } = run(statusOf({ ...sources, health, apiContact, source }));
    assert.equal(summary, "Degraded: Cannot read (for 5 s)");
    await onNode.stop();
  });

  it("is OK, with object counts and the time of the last sync", async () => {
    const onNode = new FakeNode({});
    apply(onNode, node(), service(), endpointSlice({ endpoints: ["10.244.1.10", "10.244.1.11"] }));
    await onNode.start();
    await onNode.settle();
    await onNode.wait(3_000);
    const status = statusOn(onNode);
    assert.match(status.summary, /^OK, 1 Service, last sync \d+ s ago, took \d+\.\d ms$/);
    assert.deepEqual([status.verdict, status.problems], ["OK", []]);
    const { services, endpoints, virtualServers, realServers, draining } = status.counts;
    assert.deepEqual([services, endpoints, virtualServers, realServers, draining], [1, 2, 1, 2, 0]);
    assert.equal(status.iptables?.backend, "legacy");
    for (const [backend, row] of [
      ["legacy", /^iptables +legacy: the reason$/m],
      ["nftables", /^nf_tables +nftables: the reason$/m],
    ] as const) {
      const answer = { ...status, iptables: { backend, reason: "the reason" } };
      assert.match(rendered(answer, statusView, "text", {}), row);
    }
    assert.equal(status.node.name, "node-1");
    await onNode.stop();
  });

  it("lists ignored annotations, and is still OK", async () => {
    const onNode = new FakeNode({});
    const annotations = { "kube-ipvs.io/scheduler": "nonsense" };
    apply(onNode, node(), service({ metadata: { annotations } }), endpointSlice());
    await onNode.start();
    await onNode.settle();
    const { verdict, counts, ignoredAnnotations } = statusOn(onNode);
    assert.deepEqual([verdict, counts.ignoredAnnotations], ["OK", 1]);
    const [{ service: name, annotation, value, reason } = assert.fail()] = ignoredAnnotations;
    assert.deepEqual(
      [name, annotation, value, reason],
      ["default/web", "kube-ipvs.io/scheduler", "nonsense", "scheduler-not-allowed"],
    );
    await onNode.stop();
  });

  it("lists invalid objects and files until they are repaired, and is still OK", async (test) => {
    const manifest = (ip: string, port: number): string =>
      `kind: Service\nmetadata: {name: api}\nspec: {clusterIP: ${ip}, ports: [{port: ${port}}]}\n`;
    const files = { "a.yaml": manifest("10.96.0.300", 0), "b.yaml": "{ a: [" };
    const folder = await ManifestFolder.make(test, files);
    const dependencies = { clock: new FakeClock(), log: silentLogger };
    const options = { folder: folder.path, nodeName: "node-1" };
    const onNode = new FakeNode({});
    const source = new ManifestSource(dependencies, options);
    await onNode.start(source);
    await onNode.settle();
    const status = statusOn(onNode, undefined, { source });
    assert.equal(status.verdict, "OK");
    assert.equal(status.counts.invalidObjects, 2);
    assert.deepEqual(
      status.invalidObjects.map((one) => [one.kind, one.subject, one.invalidFields]),
      [
        ["services", "default/api", 2],
        ["manifest", "b.yaml:1:7", 1],
      ],
    );
    assert.match(
      rendered(status, statusView, "text", {}),
      /^Invalid objects +2\n {2}Cannot use \S+ of Service default\/api: .* \(a\.yaml:1\) \(and 1 more\)\n {2}Cannot use manifest b\.yaml:1:7: /m,
    );
    await folder.write("a.yaml", manifest("10.96.0.30", 80));
    await folder.remove("b.yaml");
    await source.refresh();
    const repaired = statusOn(onNode, undefined, { source });
    assert.deepEqual([repaired.counts.invalidObjects, repaired.invalidObjects], [0, []]);
    assert.match(rendered(repaired, statusView, "text", {}), /^Invalid objects +0$/m);
    await onNode.stop();
  });

  it("shows the current scheduler, even after a reload", async () => {
    const onNode = new FakeNode({});
    await onNode.start();
    await onNode.settle();
    assert.equal(statusOn(onNode).scheduler, "rr");
    await onNode.reconfigure({ "ipvs-scheduler": "wrr" });
    await onNode.settle();
    assert.equal(statusOn(onNode).scheduler, "wrr");
    await onNode.stop();
  });

  it("is degraded while the kernel rejects an object, and reports for how long", async () => {
    const onNode = new FakeNode({});
    const isRefused = ({ action }: Operation): boolean => action === "real-server-create";
    onNode.kernel.operations.failWhere(isRefused, errno.EINVAL, 100);
    apply(onNode, node(), service(), endpointSlice());
    await onNode.start();
    await onNode.wait(90_000);
    const status = statusOn(onNode);
    assert.match(
      status.summary,
      /^Degraded: 1 object rejected by the kernel \(EINVAL\) \(for 1 min \d+ s\)$/,
    );
    const [refused] = status.rejectedObjects;
    assert.equal(refused?.subject, "TCP 10.96.0.10:80 -> 10.244.1.10:8080");
    assert.deepEqual(refused?.services, ["default/web"]);
    await onNode.stop();
  });

  it("is degraded while two Services claim the same address", async () => {
    const onNode = new FakeNode({});
    const spec = { externalIPs: ["203.0.113.7"] };
    const younger = service({ name: "other", clusterIps: ["10.96.0.11"], spec });
    apply(onNode, node(), service({ spec }), younger);
    await onNode.start();
    await onNode.settle();
    const status = statusOn(onNode);
    assert.deepEqual(
      status.problems.map(({ reason, message }) => `${reason}: ${message}`),
      ["conflicts: 1 Service address not served (claimed-by-another-service)"],
    );
    assert.equal(status.conflicts[0]?.reason, "claimed-by-another-service");
    await onNode.stop();
  });

  it("is degraded while the API server does not answer", async () => {
    const onNode = new FakeNode({});
    apply(onNode, node());
    await onNode.start();
    await onNode.settle();
    const contact = new ApiContact(onNode.view.clock, silentMetrics);
    contact.apiRequestAnswered("GET", "10.0.0.1:6443", "200");
    contact.apiRequestAnswered("GET", "10.0.0.1:6443", "<error>");
    await onNode.wait(10_000);
    contact.apiRequestAnswered("GET", "10.0.0.1:6443", "<error>");
    const { summary } = statusOn(onNode, contact);
    assert.equal(summary, "Degraded: API server 10.0.0.1:6443 does not answer (for 10 s)");
    contact.apiRequestAnswered("GET", "10.0.0.1:6443", "200");
    assert.equal(statusOn(onNode, contact).verdict, "OK");
    await onNode.stop();
  });

  it("reports first which resources the startup is waiting for", () => {
    const clock = new FakeClock();
    const onNode = new FakeNode({});
    const health = new ProxyHealth(clock, 60_000);
    const config = onNode.config;
    const apiContact = new ApiContact(clock, silentMetrics);
    const status = run(
      statusOf({ clock, config, health, apiContact, startedAtMs: 0, view: undefined }),
    );
    const waits = "The first sync is waiting for the Node object, Services, EndpointSlices";
    assert.ok(status.summary.startsWith(`Starting: ${waits}`), status.summary);
    assert.equal(status.verdict, "Starting");
    assert.equal(status.iptables, undefined);
  });

  it("is degraded if the first sync has not finished a minute after the start", () => {
    const clock = new FakeClock();
    const parts = {
      clock,
      config: new FakeNode({}).config,
      health: new ProxyHealth(clock, 60_000),
      apiContact: new ApiContact(clock, silentMetrics),
      startedAtMs: clock.monotonicMs() - 60_000,
      view: undefined,
    };
    assert.equal(run(statusOf(parts)).verdict, "Degraded");
  });
});
