import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { expectOk, readListHead, readWatchEvent } from "../../../../src/api/cluster/answers.ts";
import {
  type WatchedResource,
  watchedResources,
} from "../../../../src/api/cluster/watched-resources.ts";

const { services, endpointslices } = watchedResources("node-1");

async function messageFor(
  resource: WatchedResource,
  status: number,
  body: string,
): Promise<string> {
  const chunks = (async function* () {
    yield Buffer.from(body);
  })();
  const error: unknown = await expectOk(resource, { status, headers: {}, body: chunks }).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof Error);
  return error.message;
}

describe("messages for API server errors", () => {
  const cases: readonly {
    readonly name: string;
    readonly resource?: WatchedResource;
    readonly status: number;
    readonly body: string;
    readonly want: string;
  }[] = [
    {
      name: "401",
      status: 401,
      body: '{"kind":"Status","reason":"Unauthorized","message":"Unauthorized"}',
      want:
        "Cannot read services: 401 Unauthorized (Unauthorized); the API server does not accept the " +
        "credentials: check the kubeconfig's user or the token",
    },
    {
      name: "403 in the core group",
      status: 403,
      body: '{"kind":"Status","reason":"Forbidden","message":"services is forbidden"}',
      want:
        "Cannot read services: 403 Forbidden (services is forbidden); a ClusterRole bound to this user " +
        "must allow list and watch of services in the core API group, as system:node-proxier does",
    },
    {
      name: "403 in another group",
      resource: endpointslices,
      status: 403,
      body: "{}",
      want:
        "Cannot read endpointslices.discovery.k8s.io: 403 HTTP403; a ClusterRole bound to this user must " +
        "allow list and watch of endpointslices in API group discovery.k8s.io, as system:node-proxier does",
    },
    {
      name: "an HTML page from an intermediary",
      status: 502,
      body: `<html>\n${"x".repeat(100_000)}`,
      want: `Cannot read services: 502 HTTP502 (<html>\\u{a}${"x".repeat(53)}…)`,
    },
  ];
  for (const { name, resource, status, body, want } of cases) {
    it(name, async () => assert.equal(await messageFor(resource ?? services, status, body), want));
  }
});

describe("an invalid response", () => {
  const malformed = { name: "ApiError", reason: "malformed-answer" };
  for (const line of [
    '{"type":"RENAMED","object":{"metadata":{"name":"a"}}}',
    '{"object":{}}',
    "[]",
    '{"type":"ADDED"',
  ]) {
    it(`can be the watch line ${line}`, () => {
      assert.throws(() => readWatchEvent(services, line), malformed);
    });
  }

  for (const list of [
    {},
    null,
    { kind: "Service", metadata: { resourceVersion: "1" } },
    { kind: "ServiceList", metadata: {} },
    { metadata: { resourceVersion: "1" } },
  ]) {
    it(`can be the list ${JSON.stringify(list)}`, () => {
      assert.throws(() => readListHead(services, list), malformed);
    });
  }

  it("is not a watch's ERROR event, which gives its own reason", () => {
    const object = { code: 410, reason: "Expired", message: "too old resource version" };
    assert.throws(() => readWatchEvent(services, JSON.stringify({ type: "ERROR", object })), {
      ...{ name: "ApiError", status: 410, reason: "Expired" },
      message: "Cannot read services: 410 Expired (too old resource version)",
    });
  });
});
