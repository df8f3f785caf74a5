import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiServer } from "../../../support/api-server/api-server.ts";
import type { Fault } from "../../../support/api-server/faults.ts";
import { endpointSlice, node, service } from "../../../support/objects.ts";
import type { RecordingListener } from "../../../support/recording-listener.ts";
import { type Cluster, isSynced, startCluster, startSource } from "./cluster.ts";

const serviceNames = (told: RecordingListener): readonly string[] =>
  [...told.services.keys()].sort();
const many = (count: number): ReturnType<typeof service>[] =>
  Array.from({ length: count }, (_, index) =>
    service({ name: `s${String(index).padStart(4, "0")}` }),
  );
const webName = "default/web";

/** Resolves when all three resources are being watched. */
async function watched(cluster: Cluster): Promise<void> {
  while (cluster.server.openWatches < 3) await new Promise((resolve) => setTimeout(resolve, 5));
}

function requestsFor(server: ApiServer, part: string, verb: string): ApiServer["requests"] {
  return server.requests.filter((request) => request.path.includes(part) && request.verb === verb);
}

describe("objects from an API server", () => {
  it("are reported once, then their changes", async (test) => {
    const objects = [service(), endpointSlice(), node(), node({ name: "node-2" })];
    const { server, told } = await startCluster(test, { objects });
    const synced = ["synced nodes", "synced services", "synced endpointslices"];
    const names = ["+services default/web", "+endpointslices default/web-a", "+nodes node-1"];
    assert.deepEqual([...told.take()].sort(), [...names, ...synced].sort());
    server.apply(service({ clusterIps: ["10.96.0.11"] }), service({ name: "b" }));
    server.delete(endpointSlice());
    await told.until(() => told.events.length === 3);
    const changes = [
      "+services default/b",
      "-endpointslices default/web-a",
      "~services default/web",
    ];
    assert.deepEqual([...told.take()].sort(), changes);
  });

  it("are requested with the program's selectors", async (test) => {
    const labels = { "service.kubernetes.io/service-proxy-name": "other" };
    const { server, told } = await startCluster(test, {
      objects: [service({ name: "a", labels }), service({ name: "b", clusterIps: ["None"] })],
    });
    assert.deepEqual(serviceNames(told), []);
    const selectors = server.requests.map(({ path, query }) => [
      path,
      query["labelSelector"],
      query["fieldSelector"],
    ]);
    const want = [
      ["/api/v1/nodes", undefined, "metadata.name=node-1"],
      ["/api/v1/services", "!service.kubernetes.io/service-proxy-name", "spec.clusterIP!=None"],
      ["/apis/discovery.k8s.io/v1/endpointslices", "!service.kubernetes.io/headless", undefined],
    ];
    for (const line of want) {
      assert.ok(
        selectors.some((seen) => JSON.stringify(seen) === JSON.stringify(line)),
        line[0],
      );
    }
  });

  it("include only Services for the proxy with this name", async (test) => {
    const label = "service.kubernetes.io/service-proxy-name";
    const { server, told } = await startCluster(test, {
      serviceProxyName: "trial",
      objects: [
        service({ name: "a", labels: { [label]: "trial" } }),
        service({ name: "b", labels: { [label]: "other" } }),
        service({ name: "c" }),
      ],
    });
    assert.deepEqual(serviceNames(told), ["default/a"]);
    const [list] = requestsFor(server, "/services", "list");
    assert.equal(list?.query["labelSelector"], `${label}=trial`);
  });

  it("are removed when another proxy's name is set, and return when it is reset", async (test) => {
    const { server, told } = await startCluster(test, { objects: [service()] });
    const labels = { "service.kubernetes.io/service-proxy-name": "" };
    server.apply(service({ labels }));
    await told.until(() => !told.services.has(webName));
    server.apply(service());
    await told.until(() => told.services.has(webName));
  });

  it("come in pages of 500", async (test) => {
    const { server, told } = await startCluster(test, { objects: many(1100) });
    assert.equal(told.services.size, 1100);
    const lists = requestsFor(server, "/services", "list").map(({ query }) => [
      query["limit"],
      query["resourceVersion"],
      (query["continue"] ?? "") !== "",
    ]);
    // On a busy machine, the first page may be truncated and requested again.
    assert.deepEqual(lists.slice(-3), [
      ["500", "0", false],
      ["500", undefined, true],
      ["500", undefined, true],
    ]);
  });

  it("are also read from servers that ignore the limit", async (test) => {
    const { server, told } = await startCluster(test, {
      objects: many(1100),
      // Timeouts are not accelerated, because no request fails in this test, and a busy machine must not cause a timeout.
      speed: 1,
      prepare: (made) => {
        made.lists.ignoresLimit = true;
      },
    });
    assert.equal(told.services.size, 1100);
    assert.equal(requestsFor(server, "/services", "list").length, 1);
  });

  it("are read without pages after a page token expired", async (test) => {
    const { server, told } = await startCluster(test, {
      objects: many(1100),
      // The only fault must affect the second page, so no earlier list may time out.
      speed: 1,
      prepare: ({ faults }) =>
        faults.add({ on: "list", path: "/services", skip: 1, effect: "status", code: 410 }),
    });
    assert.equal(told.services.size, 1100);
    const queries = requestsFor(server, "/services", "list").map(({ query }) => query);
    const refused = queries.findIndex((query) => query["continue"] !== undefined);
    const [first, next] = [queries[0], queries[refused + 1]];
    assert.deepEqual(
      [first?.["limit"], next?.["limit"], next?.["continue"]],
      ["500", undefined, undefined],
    );
  });
});

describe("an API server fault does not change the result", () => {
  const faults: readonly (Fault & { readonly name: string })[] = [
    { name: "a list is reset", on: "list", effect: "reset" },
    { name: "a list is cut off", on: "list", effect: "cut", afterBytes: 300 },
    { name: "a list ends too early", on: "list", effect: "truncate", afterBytes: 300 },
    { name: "a list is preceded by garbage", on: "list", effect: "garbage", text: "?!" },
    { name: "a list is a different response", on: "list", effect: "garbage", text: '{"kind":"X"}' },
    { name: "a list hangs", on: "list", effect: "hang" },
    { name: "a list stalls", on: "list", effect: "stall", afterBytes: 300 },
    { name: "a list gets 500", on: "list", effect: "status", code: 500 },
    { name: "a list gets 429", on: "list", effect: "status", code: 429, retryAfterSeconds: 1 },
    { name: "a list gets 403", on: "list", effect: "status", code: 403 },
    { name: "a list is slow", on: "list", effect: "slow", chunkBytes: 100, delayMs: 1, times: 1 },
    { name: "a watch is reset", on: "watch", effect: "reset" },
    { name: "a watch gets 500", on: "watch", effect: "status", code: 500 },
    { name: "a watch gets 429", on: "watch", effect: "status", code: 429, retryAfterSeconds: 1 },
    { name: "a watch gets 410", on: "watch", effect: "status", code: 410, times: 1 },
    { name: "a watch sends garbage", on: "watch", effect: "garbage", text: "{nonsense\n" },
    {
      name: "a watch sends an ERROR event",
      times: 1,
      on: "watch",
      effect: "garbage",
      text: '{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n',
    },
    {
      name: "a watch sends an unknown event",
      on: "watch",
      effect: "garbage",
      text: '{"type":"X"}\n',
    },
    { name: "a watch is cut off within an event", on: "watch", effect: "cut", afterBytes: 40 },
    { name: "a watch ends within an event", on: "watch", effect: "truncate", afterBytes: 40 },
    { name: "a watch stalls within an event", on: "watch", effect: "stall", afterBytes: 40 },
    { name: "a watch hangs", on: "watch", effect: "hang" },
  ];
  for (const { name, ...fault } of faults) {
    it(name, async (test) => {
      const { server, told } = await startCluster(test, {
        objects: [service(), service({ name: "b" })],
        prepare: ({ faults: queue }) => queue.add({ times: 2, ...fault, path: "/services" }),
      });
      server.apply(service({ name: "c" }), service({ clusterIps: ["10.96.0.11"] }));
      server.delete(service({ name: "b" }));
      await told.until(() => told.services.has("default/c") && !told.services.has("default/b"));
      await told.until(() => told.services.get(webName)?.clusterIps[0] === "10.96.0.11");
      assert.deepEqual(serviceNames(told), ["default/c", webName]);
      assert.equal(told.events.filter((event) => event === "synced services").length, 1);
      assert.ok(server.faults.isEmpty);
    });
  }
});

describe("a watch", () => {
  it("resumes at its last version, without a new list", async (test) => {
    const cluster = await startCluster(test, { objects: [service()] });
    const { server, told } = cluster;
    await watched(cluster);
    told.take();
    server.resetConnections();
    server.apply(service({ name: "b" }));
    await told.until(() => told.services.has("default/b"));
    await watched(cluster);
    server.endWatches();
    server.apply(service({ name: "c" }));
    await told.until(() => told.services.has("default/c"));
    assert.deepEqual(told.take(), ["+services default/b", "+services default/c"]);
    const limits = requestsFor(server, "/services", "list").map(({ query }) => query["limit"]);
    // The last request only reads the server's resourceVersion.
    assert.deepEqual(limits, ["500", "1"]);
  });

  it("resumes after silence", async (test) => {
    const cluster = await startCluster(test, { objects: [service()] });
    await watched(cluster);
    cluster.server.stallWatches();
    cluster.server.apply(service({ name: "b" }));
    await cluster.told.until(() => cluster.told.services.has("default/b"));
    assert.equal(requestsFor(cluster.server, "/services", "list").length, 1);
  });

  it("advances with bookmarks", async (test) => {
    const cluster = await startCluster(test, { objects: [service()] });
    const { server } = cluster;
    await watched(cluster);
    server.apply(node({ name: "other" }));
    const { revision } = server.store;
    server.sendBookmarks();
    server.endWatches();
    const isResumed = (): boolean =>
      requestsFor(server, "/services", "watch").some(
        ({ query }) => query["resourceVersion"] === String(revision),
      );
    while (!isResumed()) await new Promise((resolve) => setTimeout(resolve, 5));
  });

  it("is replaced after a gap by a list that reports only the differences", async (test) => {
    const objects = [service({ name: "a" }), service({ name: "b" }), service({ name: "c" })];
    const cluster = await startCluster(test, { objects });
    const { server, told } = cluster;
    await watched(cluster);
    told.take();
    server.faults.add({ on: "watch", effect: "reset", times: 3 });
    server.resetConnections();
    server.delete(service({ name: "a" }));
    server.apply(service({ name: "b" }));
    server.apply(service({ name: "d" }));
    server.store.compact();
    await told.until(() => told.services.has("default/d") && !told.services.has("default/a"));
    assert.deepEqual([...told.take()].sort(), ["+services default/d", "-services default/a"]);
    const [, second] = requestsFor(server, "/services", "list");
    assert.equal(second?.query["resourceVersion"], "");
  });
});

describe("an API server that is unreachable", () => {
  it("is used again when it is reachable, and unchanged objects are not reported again", async (test) => {
    const first = await startCluster(test, { objects: [service(), service({ name: "b" })] });
    const { port } = new URL(first.server.url);
    first.told.take();
    await first.server.stop();
    const second = await ApiServer.start({
      port: Number(port),
      objects: [service(), service({ name: "c" })],
    });
    test.after(() => second.stop());
    await first.told.until(() => first.told.events.length >= 2);
    assert.deepEqual([...first.told.take()].sort(), ["+services default/c", "-services default/b"]);
  });

  it("is waited for if it was never reachable", async (test) => {
    const placeholder = await ApiServer.start();
    const { port } = new URL(placeholder.url);
    await placeholder.stop();
    const { told } = await startSource(test, `http://127.0.0.1:${port}`);
    const server = await ApiServer.start({ port: Number(port), objects: [service()] });
    test.after(() => server.stop());
    await told.until(() => isSynced(told));
    assert.deepEqual(serviceNames(told), [webName]);
  });

  it("does not delay stop()", async (test) => {
    const cluster = await startCluster(test, { objects: [service()] });
    await watched(cluster);
    cluster.told.take();
    await cluster.source.stop();
    cluster.server.apply(service({ name: "b" }));
    assert.equal(cluster.server.openWatches <= 3, true);
    assert.deepEqual(cluster.told.take(), []);
  });
});
