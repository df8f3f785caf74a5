/**
 * Canaries for docs/decisions/0017. They test how @kubernetes/client-node's informer reacts when an API server
 * misbehaves. Each test passes while the defect exists. If one fails after an update, the library has changed:
 * reconsider the decision record.
 */
import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { CoreV1Api, KubeConfig, ListWatch, type V1Service, Watch } from "@kubernetes/client-node";

type Answer = (response: ServerResponse) => void;

/** The library's private field for the timeout of a silent watch. It is set here so that no test waits for 30 s. */
const quietLimit = "requestTimeoutMs";
/** A reconnect over loopback without back-off takes a few milliseconds. */
const reconnectMs = 300;

function service(name: string, resourceVersion: string): object {
  return {
    kind: "Service",
    apiVersion: "v1",
    metadata: { name, namespace: "default", resourceVersion },
    spec: { clusterIP: "10.96.0.10" },
  };
}

const list: Answer = (response) => {
  const items = [service("a", "1"), service("b", "2")];
  const metadata = { resourceVersion: "2" };
  response.end(JSON.stringify({ kind: "ServiceList", apiVersion: "v1", metadata, items }));
};
const emptyObject: Answer = (response) => response.end("{}");
const quietWatch: Answer = (response) => response.flushHeaders();

/** An informer for Services, the requests that its server saw, and the errors that the informer reported. */
class Scene {
  readonly informer: ListWatch<V1Service>;
  readonly lists: URL[] = [];
  readonly watches: URL[] = [];
  readonly errors: unknown[] = [];

  private constructor(config: KubeConfig, quietLimitMs: number) {
    const api = config.makeApiClient(CoreV1Api);
    const watch = new Watch(config);
    Reflect.set(watch, quietLimit, quietLimitMs);
    this.informer = new ListWatch<V1Service>(
      "/api/v1/services",
      watch,
      () => api.listServiceForAllNamespaces(),
      false,
      undefined,
      undefined,
      // The pauses between reconnects are not tested.
      { delayFn: async () => {} },
    );
    this.informer.on("error", (error) => this.errors.push(error));
  }

  /** The n-th list gets the n-th answer of `lists`, or the last one. The same applies to watches. */
  static async start(
    test: TestContext,
    answers: { readonly lists: readonly Answer[]; readonly watches: readonly Answer[] },
    { quietLimitMs = 30_000 } = {},
  ): Promise<Scene> {
    const server = createServer((request: IncomingMessage, response) => {
      response.setHeader("content-type", "application/json");
      const url = new URL(request.url ?? "/", "http://server");
      const isWatch = url.searchParams.has("watch");
      const seen = isWatch ? scene.watches : scene.lists;
      const given = isWatch ? answers.watches : answers.lists;
      const answer = given[seen.length] ?? given.at(-1);
      seen.push(url);
      answer?.(response);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const config = new KubeConfig();
    const cluster = { name: "c", server: `http://127.0.0.1:${port}`, skipTLSVerify: true };
    config.loadFromClusterAndUser(cluster, { name: "u" });
    const scene = new Scene(config, quietLimitMs);
    test.after(async () => {
      await scene.informer.stop();
      server.closeAllConnections();
      server.close();
    });
    await scene.informer.start();
    return scene;
  }

  get names(): readonly (string | undefined)[] {
    return this.informer.list().map(({ metadata }) => metadata?.name);
  }
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await pause(2);
}

describe("the client library's informer", { timeout: 60_000 }, () => {
  const failures: readonly (readonly [name: string, answer: Answer])[] = [
    ["one 503", (response) => response.writeHead(503).end()],
    ["one reset", (response) => response.socket?.resetAndDestroy()],
  ];
  for (const [name, answer] of failures) {
    it(`ends permanently after ${name}, but continues to list its objects`, async (test) => {
      const scene = await Scene.start(test, { lists: [list], watches: [answer, quietWatch] });
      await until(() => scene.errors.length > 0);
      await pause(reconnectMs);
      assert.equal(scene.watches.length, 1);
      assert.equal(scene.lists.length, 1);
      assert.deepEqual(scene.names, ["a", "b"]);
    });
  }

  it("loses a line that is not JSON, without an error and without a new list", async (test) => {
    const added = JSON.stringify({ type: "ADDED", object: service("c", "3") });
    const next = JSON.stringify({ type: "ADDED", object: service("d", "4") });
    const scene = await Scene.start(test, {
      lists: [list],
      watches: [(response) => response.write(`${added.slice(0, -1)}\n${next}\n`)],
    });
    await until(() => scene.names.includes("d"));
    await pause(reconnectMs);
    assert.deepEqual(scene.names, ["a", "b", "d"]);
    assert.deepEqual(scene.errors, []);
    assert.deepEqual([scene.lists.length, scene.watches.length], [1, 1]);
  });

  it("deletes every object if a proxy answers {} to the list after a 410", async (test) => {
    const deleted: unknown[] = [];
    let expire = (): void => {};
    const scene = await Scene.start(test, {
      lists: [list, emptyObject],
      watches: [
        (response) => {
          response.flushHeaders();
          const gone = { kind: "Status", code: 410, reason: "Expired" };
          expire = () => response.end(`${JSON.stringify({ type: "ERROR", object: gone })}\n`);
        },
        quietWatch,
      ],
    });
    scene.informer.on("delete", ({ metadata }) => deleted.push(metadata?.name));
    await until(() => scene.watches.length === 1);
    expire();
    await until(() => scene.lists.length === 2 && scene.watches.length === 2);
    assert.deepEqual(deleted, ["a", "b"]);
    assert.deepEqual(scene.names, []);
    assert.deepEqual(scene.errors, []);
  });

  it("reconnects a quiet watch every 30 s and requests no bookmarks, which would keep it open", async (test) => {
    assert.equal(Reflect.get(new Watch(new KubeConfig()), quietLimit), 30_000);
    const answers = { lists: [list], watches: [quietWatch] };
    const scene = await Scene.start(test, answers, { quietLimitMs: 20 });
    await until(() => scene.watches.length >= 4);
    assert.equal(scene.lists.length, 1);
    const [query = new URLSearchParams()] = scene.watches.map(({ searchParams }) => searchParams);
    assert.equal(query.has("allowWatchBookmarks"), false);
    assert.equal(query.has("timeoutSeconds"), false);
  });
});
