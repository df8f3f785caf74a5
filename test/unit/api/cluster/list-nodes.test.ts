import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { listNodes } from "../../../../src/api/cluster/list-nodes.ts";
import type { Nodes } from "../../../../src/api/source.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { ScriptedConnection } from "./scripted-connection.ts";

/** A Node with the fields that a kubelet reports. */
const node = (
  name: string,
  ...addresses: readonly (readonly [type: string, address: string])[]
) => ({
  metadata: { name, resourceVersion: "7" },
  status: {
    addresses: addresses.map(([type, address]) => ({ type, address })),
    images: [{ names: ["registry/image@sha256:0"], sizeBytes: 1 }],
  },
});

const list = (items: readonly unknown[], token = ""): string =>
  JSON.stringify({ kind: "NodeList", metadata: { resourceVersion: "9", continue: token }, items });

async function listed(...pages: readonly (readonly [text: string, status?: number])[]): Promise<{
  readonly nodes: Nodes;
  readonly queries: readonly unknown[];
}> {
  const [clock, connection] = [new FakeClock(), new ScriptedConnection()];
  const nodes = listNodes({ clock, connection }, new AbortController().signal);
  // A rejected page aborts the list.
  nodes.catch(() => {});
  for (const [text, status = 200] of pages) {
    await clock.advance(0);
    const body = connection.latest.answer(status);
    body.send(text);
    body.end();
    await clock.advance(0);
  }
  return { nodes: await nodes, queries: connection.requests.map(({ query }) => query) };
}

describe("a list of Nodes", () => {
  it("has the canonical InternalIP and ExternalIP addresses of each", async () => {
    const { nodes, queries } = await listed([
      list([
        node("a", ["ExternalIP", "203.0.113.1"], ["InternalIP", "10.0.0.1"], ["Hostname", "a"]),
        node("b", ["InternalIP", "FD00:0::1"], ["InternalIP", "nonsense"]),
        node("c"),
        { kind: "Node" },
      ]),
    ]);
    assert.deepEqual(
      [...nodes].map(([name, { addresses }]) => [name, addresses]),
      [
        ["a", ["10.0.0.1", "203.0.113.1"]],
        ["b", ["fd00::1"]],
        ["c", []],
      ],
    );
    assert.deepEqual(queries, [{ limit: "500", resourceVersion: "0" }]);
  });

  it("is read in pages if the API server supports them", async () => {
    const { nodes, queries } = await listed(
      [list([node("a", ["InternalIP", "10.0.0.1"])], "next")],
      [list([node("b", ["InternalIP", "10.0.0.2"])])],
    );
    assert.deepEqual([...nodes.keys()], ["a", "b"]);
    assert.deepEqual(queries[1], { limit: "500", continue: "next" });
  });

  const failures: readonly (readonly [string, string, number, RegExp])[] = [
    ["is forbidden", '{"kind":"Status","code":403}', 403, /nodes.*403/],
    ["is not a list", "{}", 200, /not a list/],
    ["is truncated", '{"kind":"NodeList","items":[{', 200, /truncated/],
  ];
  for (const [name, text, status, message] of failures) {
    it(`that ${name} is an error, and never an empty cluster`, async () => {
      await assert.rejects(listed([text, status]), message);
    });
  }
});
