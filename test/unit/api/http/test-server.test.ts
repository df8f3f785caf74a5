import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { ApiServer, type ApiServerOptions } from "../../../support/api-server/api-server.ts";
import { startControl } from "../../../support/api-server/control.ts";
import { endpoint, endpointSlice, node, service } from "../../../support/objects.ts";

interface Listed {
  readonly kind: string;
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly { readonly metadata: { readonly name: string } }[];
}

async function started(test: TestContext, options: ApiServerOptions = {}): Promise<ApiServer> {
  const server = await ApiServer.start(options);
  test.after(() => server.stop());
  return server;
}

async function list(server: ApiServer, pathAndQuery: string): Promise<Listed> {
  const response = await fetch(server.url + pathAndQuery);
  assert.equal(response.status, 200);
  return (await response.json()) as Listed;
}

const names = ({ items }: Listed): readonly string[] => items.map(({ metadata }) => metadata.name);

/** Reads `count` lines of a watch: type and name of each, or type and revision for a bookmark. */
async function watchLines(
  server: ApiServer,
  query: string,
  count: number,
  meanwhile: () => void,
): Promise<readonly string[]> {
  const response = await fetch(`${server.url}/api/v1/services?watch=1&${query}`);
  meanwhile();
  const lines: string[] = [];
  let text = "";
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk as Uint8Array).toString();
    const parts = text.split("\n");
    text = parts.pop() ?? "";
    lines.push(...parts.map(shortLine));
    if (lines.length >= count) break;
  }
  return lines;
}

function shortLine(line: string): string {
  const { type, object } = JSON.parse(line) as {
    type: string;
    object: { code?: number; metadata: { name?: string; resourceVersion?: string } };
  };
  const { name, resourceVersion } = object.metadata;
  return `${type} ${name ?? object.code ?? resourceVersion}`;
}

async function firstChunk({ body }: Response): Promise<string> {
  for await (const chunk of body ?? []) return Buffer.from(chunk as Uint8Array).toString();
  return "";
}

describe("the test API server", () => {
  const three = ["a", "b", "c"].map((name) => service({ name }));

  it("lists in pages", async (test) => {
    const server = await started(test, { objects: [...three, endpointSlice(), node()] });
    const first = await list(server, "/api/v1/services?limit=2");
    assert.equal(first.kind, "ServiceList");
    assert.deepEqual(names(first), ["a", "b"]);
    const token = first.metadata.continue ?? "";
    const second = await list(server, `/api/v1/services?limit=2&continue=${token}`);
    assert.deepEqual(names(second), ["c"]);
    assert.equal(second.metadata.continue, undefined);
    server.lists.ignoresLimit = true;
    assert.deepEqual(names(await list(server, "/api/v1/services?limit=2")), ["a", "b", "c"]);
    server.lists.expireContinues();
    const expired = await fetch(`${server.url}/api/v1/services?limit=2&continue=${token}`);
    assert.equal(expired.status, 410);
  });

  it("selects by labels and fields", async (test) => {
    const labeled = service({ name: "x", labels: { k: "" } });
    const headless = service({ name: "h", clusterIps: ["None"] });
    const server = await started(test, {
      objects: [...three, labeled, headless, node(), node({ name: "node-2" })],
    });
    const cases: readonly (readonly [query: string, want: readonly string[]])[] = [
      ["services?labelSelector=!k", ["a", "b", "c", "h"]],
      ["services?labelSelector=k", ["x"]],
      ["services?labelSelector=!k&fieldSelector=spec.clusterIP!=None", ["a", "b", "c"]],
      ["nodes?fieldSelector=metadata.name=node-2", ["node-2"]],
    ];
    for (const [query, want] of cases) {
      assert.deepEqual(names(await list(server, `/api/v1/${query}`)), want, query);
    }
  });

  it("sends changes to a watch, including objects that enter and leave its selection", async (test) => {
    const server = await started(test, { objects: [service({ name: "a" })] });
    const { revision } = server.store;
    const query = `resourceVersion=${revision}&labelSelector=!k`;
    const lines = await watchLines(server, query, 5, () => {
      server.apply(service({ name: "a", clusterIps: ["10.96.0.2"] }));
      server.apply(service({ name: "a", labels: { k: "" } }));
      server.apply(service({ name: "a" }));
      server.apply(service({ name: "b", labels: { k: "" } }));
      server.delete(service({ name: "a" }));
      server.apply(service({ name: "c" }));
    });
    assert.deepEqual(lines, ["MODIFIED a", "DELETED a", "ADDED a", "DELETED a", "ADDED c"]);
  });

  it("sends a watch the events that it missed, bookmarks, and 410 for expired revisions", async (test) => {
    const server = await started(test);
    const { revision } = server.store;
    server.apply(service({ name: "a" }));
    const since = `resourceVersion=${revision}&allowWatchBookmarks=true`;
    const bookmark = `BOOKMARK ${revision + 1}`;
    const lines = await watchLines(server, since, 2, () =>
      setTimeout(() => server.sendBookmarks(), 20),
    );
    assert.deepEqual(lines, ["ADDED a", bookmark]);
    server.store.compact();
    const gone = await fetch(`${server.url}/api/v1/services?watch=1&resourceVersion=${revision}`);
    assert.equal(gone.status, 410);
    server.tellsGoneAsEvent = true;
    assert.deepEqual(await watchLines(server, since, 1, () => {}), ["ERROR 410"]);
  });

  it("changes responses as a fault requests", async (test) => {
    const server = await started(test, { objects: three });
    const ask = async (): Promise<string> => {
      try {
        const response = await fetch(`${server.url}/api/v1/services`);
        const text = await response.text();
        return `${response.status} ${text.slice(0, 6)}… ${text.length} ${response.headers.get("retry-after")}`;
      } catch {
        return "broken";
      }
    };
    server.faults.add({ on: "list", effect: "status", code: 429, retryAfterSeconds: 7 });
    assert.match(await ask(), /^429 .* 7$/);
    server.faults.add({ on: "any", effect: "reset", times: 2 });
    assert.deepEqual([await ask(), await ask()], ["broken", "broken"]);
    server.faults.add({ on: "list", effect: "truncate", afterBytes: 10 });
    assert.match(await ask(), /^200 \{"kind… 10 null$/);
    server.faults.add({ on: "list", effect: "cut", afterBytes: 10 });
    assert.equal(await ask(), "broken");
    server.faults.add({ on: "list", effect: "garbage", text: "?!" });
    assert.match(await ask(), /^200 \?!\{"ki… /);
    server.faults.add({ on: "watch", effect: "reset" });
    assert.match(await ask(), /^200 \{"kind… \d+ null$/);
  });

  it("also serves EndpointSlices to older clients, with node and zone as topology", async (test) => {
    const older = "/apis/discovery.k8s.io/v1beta1/endpointslices";
    const endpoints = [endpoint("10.244.1.5", { nodeName: "node-1", zone: "z1" }), "10.244.2.5"];
    const server = await started(test, { objects: [endpointSlice({ endpoints })] });
    const topology = { "kubernetes.io/hostname": "node-1", "topology.kubernetes.io/zone": "z1" };
    const wanted = [{ ...endpoint("10.244.1.5"), nodeName: "node-1", topology }];
    const plain = [{ ...endpoint("10.244.2.5"), topology: {} }];
    const listed = await list(server, older);
    assert.equal((listed as { apiVersion?: string }).apiVersion, "discovery.k8s.io/v1beta1");
    assert.deepEqual((listed.items[0] as { endpoints?: unknown }).endpoints, [...wanted, ...plain]);
    const watch = await fetch(`${server.url}${older}?watch=1&resourceVersion=0`);
    const { object } = JSON.parse(await firstChunk(watch)) as {
      object: { apiVersion: string; endpoints: unknown };
    };
    assert.equal(object.apiVersion, "discovery.k8s.io/v1beta1");
    assert.deepEqual(object.endpoints, [...wanted, ...plain]);
  });

  it("returns a Node by its name", async (test) => {
    const server = await started(test, { objects: [node()] });
    const answer = await fetch(`${server.url}/api/v1/nodes/node-1`);
    assert.deepEqual(((await answer.json()) as { spec: unknown }).spec, node()["spec"]);
    assert.equal((await fetch(`${server.url}/api/v1/nodes/node-9`)).status, 404);
  });

  it("rejects a list by watch as a server without it does, so that clients list", async (test) => {
    const server = await started(test);
    const query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    const answer = await fetch(`${server.url}/api/v1/services?${query}`);
    assert.equal(((await answer.json()) as { reason: string }).reason, "Invalid");
  });

  it("requires a token if one is set", async (test) => {
    const server = await started(test, { token: "secret" });
    const url = `${server.url}/api/v1/nodes`;
    assert.equal((await fetch(url)).status, 401);
    assert.equal((await fetch(url, { headers: { authorization: "Bearer secret" } })).status, 200);
  });

  it("is controlled from another process", async (test) => {
    const server = await started(test);
    const control = await startControl(server, { host: "127.0.0.1", port: 0 });
    test.after(() => control.close());
    const ask = async (command: string, body: unknown = null): Promise<unknown> => {
      const answer = await fetch(`${control.url}/${command}`, {
        method: "POST",
        body: JSON.stringify(body),
      });
      assert.equal(answer.status, 200);
      return answer.json();
    };
    await ask("apply", three);
    await ask("delete", { kind: "Service", metadata: { namespace: "default", name: "b" } });
    await ask("fault", { on: "list", effect: "status", code: 500 });
    assert.equal((await fetch(`${server.url}/api/v1/services`)).status, 500);
    assert.deepEqual(names(await list(server, "/api/v1/services")), ["a", "c"]);
    assert.equal(((await ask("requests")) as readonly unknown[]).length, 2);
    assert.deepEqual(await ask("state"), {
      openWatches: 0,
      revision: server.store.revision,
      faultsLeft: 0,
    });
    assert.equal((await fetch(`${control.url}/toString`)).status, 404);
  });
});
