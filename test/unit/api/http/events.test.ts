/** Tests Events and request metrics over real HTTP, as the API server sees them. */
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { EventWriter } from "../../../../src/api/cluster/events/event-writer.ts";
import { openConnection } from "../../../../src/api/cluster/open-connection.ts";
import type { ApiConnection, RequestFigures } from "../../../../src/api/connection.ts";
import { healthPortFailedEvent, startingEvent } from "../../../../src/daemon/report/events.ts";
import { ApiServer, type ApiServerOptions } from "../../../support/api-server/api-server.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { clockAt } from "./cluster.ts";
import { listNodes } from "./way.ts";

/** `GET 200`, and `GET ended: 0 sent`. */
class Counting {
  readonly answers: string[] = [];
  readonly ends: (RequestFigures & { readonly method: string })[] = [];

  apiRequestAnswered(method: string, host: string, code: string): void {
    this.answers.push(`${method} ${host} ${code}`);
  }

  apiRequestEnded(method: string, _host: string, figures: RequestFigures): void {
    this.ends.push({ method, ...figures });
  }
}

async function open(
  test: TestContext,
  options: ApiServerOptions = {},
): Promise<{ server: ApiServer; connection: ApiConnection; counting: Counting; host: string }> {
  const server = await ApiServer.start(options);
  test.after(() => server.stop());
  const counting = new Counting();
  const connection = await openConnection(
    { clock: clockAt(400), environment: {}, observer: counting },
    { kubeconfig: "", master: server.url, userAgent: "kube-ipvs/test" },
  );
  test.after(() => connection.close());
  return { server, connection, counting, host: new URL(server.url).host };
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("events over HTTP", () => {
  it("are stored by the API server, and become a series", async (test) => {
    const { server, connection } = await open(test);
    const log = new RecordingLogger();
    const writer = new EventWriter(
      { connection, clock: clockAt(1), log },
      { hostname: "host-1", nodeName: "node-1" },
    );
    writer.record(startingEvent("node-1"));
    const failed = healthPortFailedEvent("node-1", "shop/web", { port: 31_000 }, "EADDRINUSE");
    writer.record(failed);
    writer.record(failed);
    while (server.events.events[1]?.["series"] === undefined) await nextTurn();
    await writer.stop();
    assert.deepEqual(log.lines, []);
    const told = server.events.events.map(({ reason, note, regarding, series }) => ({
      reason,
      note,
      regarding,
      count: (series as { count?: number } | undefined)?.count,
    }));
    assert.deepEqual(told, [
      {
        reason: "Starting",
        note: "",
        regarding: { apiVersion: "v1", kind: "Node", name: "node-1" },
        count: undefined,
      },
      {
        reason: "FailedToStartServiceHealthcheck",
        note: 'node node-1 failed to start healthcheck "shop/web" on port 31000: EADDRINUSE',
        regarding: { apiVersion: "v1", kind: "Service", namespace: "shop", name: "web" },
        count: 2,
      },
    ]);
  });

  it("arrive even if the first attempt fails", async (test) => {
    const { server, connection } = await open(test);
    server.faults.add({ on: "write", effect: "status", code: 500 });
    server.faults.add({ on: "write", effect: "reset" });
    const parts = { connection, clock: clockAt(400), log: new RecordingLogger() };
    const writer = new EventWriter(parts, { hostname: "host-1", nodeName: "node-1" });
    writer.record(startingEvent("node-1"));
    while (server.events.events.length === 0) await nextTurn();
    assert.equal(server.requests.length, 3);
    await writer.stop();
  });
});

describe("requests are counted", () => {
  it("with method, host, status, duration and size", async (test) => {
    const { connection, counting, host } = await open(test);
    const { text } = await listNodes(connection);
    assert.deepEqual(counting.answers, [`GET ${host} 200`]);
    const [end] = counting.ends;
    assert.ok((end?.seconds ?? 0) > 0);
    assert.deepEqual([end?.method, end?.sentBytes, end?.receivedBytes], ["GET", 0, text.length]);
  });

  it("including those that the API server rejects or breaks", async (test) => {
    const { server, connection, counting, host } = await open(test);
    server.faults.add({ on: "list", effect: "status", code: 503 });
    server.faults.add({ on: "list", effect: "reset" });
    await listNodes(connection);
    await assert.rejects(listNodes(connection));
    assert.deepEqual(counting.answers, [`GET ${host} 503`, `GET ${host} <error>`]);
    assert.equal("receivedBytes" in (counting.ends[1] ?? {}), false);
  });

  it("a watch has a response, but no end", async (test) => {
    const { connection, counting, host } = await open(test);
    const abort = new AbortController();
    const query = { watch: "true" };
    const { body } = await connection.request("/api/v1/nodes", query, abort.signal);
    abort.abort();
    await assert.rejects(body[Symbol.asyncIterator]().next());
    assert.deepEqual(counting.answers, [`GET ${host} 200`]);
    assert.deepEqual(counting.ends, []);
  });

  it("the size of a request is counted in bytes", async (test) => {
    const { connection, counting } = await open(test);
    const path = "/apis/events.k8s.io/v1/namespaces/default/events";
    const write = {
      method: "POST",
      path,
      contentType: "application/json",
      body: '{"note":"ü"}',
    } as const;
    const { status, body } = await connection.send(write, new AbortController().signal);
    for await (const _chunk of body);
    assert.equal(status, 422);
    assert.deepEqual([counting.ends[0]?.method, counting.ends[0]?.sentBytes], ["POST", 13]);
  });
});
