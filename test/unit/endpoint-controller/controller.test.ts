/** Tests the controller with the test API server, over real HTTP. */
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import type { EndpointController } from "../../../src/endpoint-controller/controller.ts";
import { ApiServer } from "../../support/api-server/api-server.ts";
import { resourceOf } from "../../support/api-server/resources.ts";
import { type ApiObject, endpointSlice, node, pod, service } from "../../support/objects.ts";
import { RecordingLogger } from "../../support/recording-logger.ts";
import { startController } from "./started-controller.ts";

const sliceResource = resourceOf(endpointSlice());

const selecting = (options: Parameters<typeof service>[0] = {}): ApiObject =>
  service({ ...options, spec: { selector: { app: "web" }, ...options.spec } });

/** An API server with a running controller. */
class Stage {
  readonly server: ApiServer;
  readonly log: RecordingLogger = new RecordingLogger();
  readonly #test: TestContext;
  controller: EndpointController | undefined;

  constructor(test: TestContext, server: ApiServer) {
    this.#test = test;
    this.server = server;
  }

  static async make(test: TestContext, ...objects: readonly ApiObject[]): Promise<Stage> {
    const server = await ApiServer.start({ objects });
    const stage = new Stage(test, server);
    test.after(() => server.stop());
    return stage;
  }

  async start(): Promise<this> {
    this.controller = await startController(this.#test, this.server, this.log);
    return this;
  }

  /** Resolves when the slices are as expected and no work is left. */
  async until(want: readonly string[]): Promise<void> {
    for (let tries = 0; tries < 400; tries += 1) {
      if (this.controller?.isSettled === true && this.lines.join() === want.join()) break;
      await pause(10);
    }
    assert.deepEqual(this.lines, want);
  }

  get slices(): readonly ApiObject[] {
    return this.server.store
      .list(sliceResource)
      .toSorted((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
  }

  /** `slice: address …` of each slice. */
  get lines(): readonly string[] {
    return this.slices.map((slice) => {
      const endpoints = slice["endpoints"] as readonly { readonly addresses: readonly string[] }[];
      const addresses = endpoints.flatMap((endpoint) => endpoint.addresses);
      return `${nameOf(slice)}: ${addresses.sort().join(" ")}`.trim();
    });
  }

  get writes(): readonly string[] {
    return this.server.requests
      .filter(({ verb }) => verb === "write")
      .map(({ method, path }) => `${method} ${path.split("/").at(-1)}`);
  }
}

function nameOf({ metadata }: ApiObject): string {
  return String(metadata["name"]);
}

function isLabelled({ metadata }: ApiObject): boolean {
  return Object.hasOwn(metadata["labels"] as object, "added");
}

/** Adds a label, as an admission webhook may do. */
function labeled(slice: ApiObject): ApiObject {
  const labels = { ...(slice.metadata["labels"] as object), added: "by another" };
  return { ...slice, metadata: { ...slice.metadata, labels } };
}

describe("the endpoint controller", () => {
  it("derives zones and hints from Nodes and Services, and writes nothing when it is started again", async (test) => {
    const near = selecting({ spec: { trafficDistribution: "PreferSameNode" } });
    const inZone = (zone: string): ApiObject =>
      node({ labels: { "topology.kubernetes.io/zone": zone } });
    const stage = await (await Stage.make(test, near, pod(), inZone("z1"))).start();
    const seen = (): unknown => {
      const [endpoint] = (stage.slices[0]?.["endpoints"] ?? []) as readonly ApiObject[];
      return [endpoint?.["zone"], endpoint?.["hints"]];
    };
    await stage.until(["web-ipv4-0: 10.244.1.10"]);
    const hints = { forZones: [{ name: "z1" }], forNodes: [{ name: "node-1" }] };
    assert.deepEqual(seen(), ["z1", hints]);
    await stage.controller?.stop();
    await stage.start();
    await stage.until(["web-ipv4-0: 10.244.1.10"]);
    assert.deepEqual(stage.writes, ["POST endpointslices"]);
    stage.server.apply(inZone("z2"), selecting({ spec: { trafficDistribution: "PreferClose" } }));
    for (let tries = 0; tries < 400 && JSON.stringify(seen()).includes("z1"); tries += 1) {
      await pause(10);
    }
    await stage.until(["web-ipv4-0: 10.244.1.10"]);
    assert.deepEqual(seen(), ["z2", { forZones: [{ name: "z2" }] }]);
  });

  it("creates a Service's slice, follows its Pods, and writes nothing without changes", async (test) => {
    const stage = await (await Stage.make(test, selecting(), pod())).start();
    await stage.until(["web-ipv4-0: 10.244.1.10"]);
    assert.deepEqual(stage.writes, ["POST endpointslices"]);
    const [slice] = stage.slices;
    assert.deepEqual(slice?.metadata["labels"], {
      "kubernetes.io/service-name": "web",
      "endpointslice.kubernetes.io/managed-by": "kube-ipvs-endpoint-controller",
    });
    assert.deepEqual(slice.metadata["ownerReferences"], [
      {
        apiVersion: "v1",
        kind: "Service",
        name: "web",
        uid: "uid-default-web",
        controller: true,
        blockOwnerDeletion: true,
      },
    ]);
    assert.deepEqual(slice["endpoints"], [
      {
        addresses: ["10.244.1.10"],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: "node-1",
        targetRef: { kind: "Pod", namespace: "default", name: "web-0", uid: "uid-default-web-0" },
      },
    ]);
    stage.server.apply(pod({ name: "web-1", ips: ["10.244.1.11"] }));
    await stage.until(["web-ipv4-0: 10.244.1.10 10.244.1.11"]);
    const before = stage.writes.length;
    stage.server.apply(pod({ status: { message: "not relevant" } }), selecting());
    stage.server.apply(pod({ name: "db", labels: { app: "db" } }));
    await pause(100);
    assert.equal(stage.writes.length, before);
    stage.server.delete(selecting());
    await stage.until([]);
  });

  it("restarts on correct slices without a write, and removes slices of deleted Services", async (test) => {
    const stage = await (await Stage.make(test, selecting(), pod())).start();
    stage.server.apply(selecting({ name: "gone" }));
    await stage.until(["gone-ipv4-0: 10.244.1.10", "web-ipv4-0: 10.244.1.10"]);
    await stage.controller?.stop();
    stage.server.requests.splice(0);
    stage.server.delete(selecting({ name: "gone" }));
    await stage.start();
    await stage.until(["web-ipv4-0: 10.244.1.10"]);
    assert.deepEqual(stage.writes, ["DELETE gone-ipv4-0"]);
  });

  it("skips a Service that another controller manages, and logs it once", async (test) => {
    const labels = { "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io" };
    const theirs = endpointSlice({ labels });
    const stage = await (await Stage.make(test, selecting(), pod(), theirs)).start();
    await stage.until(["web-a: 10.244.1.10"]);
    stage.server.apply(pod({ name: "web-1", ips: ["10.244.1.11"] }));
    await pause(100);
    assert.deepEqual(stage.writes, []);
    const named = stage.log.lines.filter(({ event }) => event.includes("another manager"));
    assert.deepEqual(
      named.map(({ keys }) => keys),
      [{ service: "default/web", managedBy: "endpointslice-controller.k8s.io" }],
    );
    stage.server.delete(theirs);
    await stage.until(["web-ipv4-0: 10.244.1.10 10.244.1.11"]);
    stage.server.apply(theirs);
    await stage.until(["web-a: 10.244.1.10"]);
  });

  it("overwrites third-party changes to its slices", async (test) => {
    const stage = await (await Stage.make(test, selecting(), pod())).start();
    await stage.until(["web-ipv4-0: 10.244.1.10"]);
    const [slice] = stage.slices;
    assert.ok(slice);
    stage.server.apply({ ...slice, endpoints: [] });
    await stage.until(["web-ipv4-0: 10.244.1.10"]);
    stage.server.delete(slice);
    await stage.until(["web-ipv4-0: 10.244.1.10"]);
  });

  it("writes with growing delays if a third party keeps reverting its slices", async (test) => {
    const stage = await (await Stage.make(test, selecting(), pod())).start();
    await stage.until(["web-ipv4-0: 10.244.1.10"]);
    const reverted = (): readonly unknown[] =>
      stage.log.lines.flatMap(({ keys }) =>
        /were reverted \d/.test(String(keys["err"])) ? keys : [],
      );
    for (let tries = 0; tries < 10_000 && reverted().length < 4; tries += 1) {
      const [slice] = stage.slices;
      if (slice !== undefined && !isLabelled(slice)) stage.server.apply(labeled(slice));
      await pause(1);
    }
    assert.ok(stage.writes.length <= 8, stage.writes.join());
    const { err } = reverted()[0] as { readonly err: string };
    assert.match(err, /^EndpointSlices of default\/web were reverted 3 times: .* webhook /);
    stage.server.apply(pod({ ips: ["10.244.1.11"] }));
    await stage.until(["web-ipv4-0: 10.244.1.11"]);
  });

  it("keeps third-party annotations on its slices", async (test) => {
    const stage = await (await Stage.make(test, selecting(), pod())).start();
    await stage.until(["web-ipv4-0: 10.244.1.10"]);
    const [slice] = stage.slices;
    assert.ok(slice);
    stage.server.apply({ ...slice, metadata: { ...slice.metadata, annotations: { a: "b" } } });
    stage.server.apply(pod({ name: "web-1", ips: ["10.244.1.11"] }));
    await stage.until(["web-ipv4-0: 10.244.1.10 10.244.1.11"]);
    assert.deepEqual(stage.slices[0]?.metadata["annotations"], { a: "b" });
  });
});

describe("the endpoint controller after errors", () => {
  for (const code of [409, 429, 500, 503]) {
    it(`retries after status ${code}`, async (test) => {
      const stage = await Stage.make(test, selecting(), pod());
      stage.server.faults.add({ on: "write", effect: "status", code, times: 2 });
      await stage.start();
      await stage.until(["web-ipv4-0: 10.244.1.10"]);
      assert.equal(stage.writes.length, 3);
      const isLoud = stage.log.lines.some(({ level }) => level === "warn");
      assert.equal(isLoud, code !== 409, "a conflict causes no warning");
    });
  }

  it("does not create a slice twice if a response is lost", async (test) => {
    const stage = await Stage.make(test, selecting(), pod());
    stage.server.faults.add({ on: "watch", effect: "hang", path: "endpointslices", times: 1 });
    stage.server.faults.add({ on: "write", effect: "reset", times: 1 });
    await stage.start();
    stage.server.apply(pod({ name: "web-1", ips: ["10.244.1.11"] }));
    await stage.until(["web-ipv4-0: 10.244.1.10 10.244.1.11"]);
  });

  it("names the missing permission if writing is forbidden", async (test) => {
    const stage = await Stage.make(test, selecting(), pod());
    stage.server.faults.add({ on: "write", effect: "status", code: 403 });
    await stage.start();
    await stage.until(["web-ipv4-0: 10.244.1.10"]);
    const line = stage.log.lines.find(({ level }) => level === "warn");
    assert.match(
      String(line?.keys["err"]),
      /^Cannot create EndpointSlice default\/web-ipv4-0: 403 Forbidden .*must allow create, patch and delete/,
    );
  });

  it("reaches the correct state after broken watches, lost history and failed lists", async (test) => {
    const stage = await (await Stage.make(test, selecting(), pod())).start();
    await stage.until(["web-ipv4-0: 10.244.1.10"]);
    for (const [round, effect] of (["reset", "hang", "status"] as const).entries()) {
      if (effect === "status") stage.server.faults.add({ on: "list", effect, code: 503, times: 3 });
      stage.server.store.compact();
      stage.server.resetConnections();
      stage.server.apply(pod({ ips: [`10.244.2.${round}`] }));
      await stage.until([`web-ipv4-0: 10.244.2.${round}`]);
    }
  });

  it("writes nothing before all three lists are complete", async (test) => {
    const stage = await Stage.make(test, selecting(), pod());
    stage.server.faults.add({ on: "list", effect: "status", code: 503, path: "pods", times: 2 });
    await stage.start();
    await stage.until(["web-ipv4-0: 10.244.1.10"]);
    assert.deepEqual(stage.writes, ["POST endpointslices"], "never a slice without its Pods");
  });
});

describe("the endpoint controller with a large Service", () => {
  it("writes one slice for one Pod among 250", async (test) => {
    const pods = Array.from({ length: 250 }, (_, number) =>
      pod({ name: `web-${number}`, ips: [`10.244.3.${number + 1}`] }),
    );
    const stage = await (await Stage.make(test, selecting(), ...pods)).start();
    while (stage.slices.length < 3 || stage.controller?.isSettled !== true) await pause(10);
    stage.server.requests.splice(0);
    stage.server.apply(pod({ name: "web-7", ips: ["10.244.3.8"], isReady: false }));
    while (stage.writes.length === 0) await pause(10);
    await pause(50);
    assert.equal(stage.writes.length, 1);
  });
});
