import assert from "node:assert/strict";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { systemClock } from "../../../../src/base/clock.ts";
import { errno } from "../../../../src/base/errno.ts";
import { parseJson } from "../../../../src/base/parse-json.ts";
import { openOperatorSocket } from "../../../../src/daemon/operator/operator-socket.ts";
import { FakeNode } from "../../../support/fake-node.ts";
import type { NamedObject } from "../../../support/memory-source.ts";
import { endpointSlice, node, service } from "../../../support/objects.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";

let folder: string;
let path: string;
let log: RecordingLogger;
let onNode: FakeNode;
let stop: () => Promise<void>;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "operator-"));
  path = join(folder, "room", "name.sock");
  log = new RecordingLogger();
  onNode = new FakeNode({});
  const objects = [node(), service(), endpointSlice()] as readonly unknown[];
  onNode.source.apply(...(objects as readonly NamedObject[]));
  await onNode.start();
  await onNode.settle();
  stop = await open();
});

afterEach(async () => {
  await stop();
  await onNode.stop();
  rmSync(folder, { recursive: true });
});

function open(timeoutMs = 5_000): Promise<() => Promise<void>> {
  return openOperatorSocket(path, {
    clock: systemClock,
    log,
    timeoutMs,
    view: () => onNode.view,
    configuration: () => ({ mode: "ipvs" }),
    status: () => {
      throw new Error("no status here");
    },
  });
}

interface Answer {
  readonly status: number | undefined;
  readonly text: string;
}

function ask(
  target: string,
  method = "GET",
  headers: Record<string, string> = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({ socketPath: path, path: target, method, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () => resolve({ status: response.statusCode, text }));
      response.on("error", reject);
    });
    asked.on("error", reject);
    asked.end();
  });
}

describe("the operator socket", () => {
  it("is accessible only to root: the socket is 0600, its folder 0700", () => {
    assert.equal(statSync(path).mode & 0o777, 0o600);
    assert.equal(statSync(join(folder, "room")).mode & 0o777, 0o700);
  });

  it("returns a list with one line for each row", async () => {
    const { status, text } = await ask("/v1/services?endpoints=true");
    assert.equal(status, 200);
    assert.equal(text.split("\n").length, 4);
    const { apiVersion, kind, items } = parseJson(text) as Record<string, unknown>;
    assert.deepEqual([apiVersion, kind], ["kube-ipvs/v1", "ServiceList"]);
    assert.equal((items as readonly { name: string }[])[0]?.name, "web");
  });

  it("returns 500 and the reason if creating a list fails", async () => {
    onNode.kernel.operations.failWhere(({ facility }) => facility === "ipvs", errno.EPERM);
    const { status, text } = await ask("/v1/services?connections=true");
    assert.equal(status, 500);
    assert.match((parseJson(text) as { message: string }).message, /EPERM/);
  });

  it("returns the current configuration", async () => {
    const { status, text } = await ask("/v1/config");
    assert.equal(status, 200);
    const configuration = { mode: "ipvs" };
    const wanted = { apiVersion: "kube-ipvs/v1", kind: "Configuration", configuration };
    assert.deepEqual(parseJson(text), wanted);
  });

  it("returns an empty list", async () => {
    const { text } = await ask("/v1/drains");
    assert.deepEqual(parseJson(text), { apiVersion: "kube-ipvs/v1", kind: "DrainList", items: [] });
  });

  for (const [target, method, wanted] of [
    ["/", "GET", 404],
    ["/v2/status", "GET", 404],
    ["/v1/services", "POST", 405],
    ["/v1/services", "DELETE", 405],
    ["/v1/status", "GET", 500],
  ] as const) {
    it(`answers ${method} ${target} with ${wanted} and the reason`, async () => {
      const { status, text } = await ask(target, method);
      assert.equal(status, wanted);
      assert.equal((parseJson(text) as { kind: string }).kind, "Error");
    });
  }

  it("reads at most 4 KiB of headers", async () => {
    const { status } = await ask("/v1/drains", "GET", { "X-Long": "x".repeat(5_000) });
    assert.equal(status, 431);
  });

  it("closes connections of clients that do not read, or send no request", async () => {
    await stop();
    stop = await open(300);
    const socket = connect(path);
    socket.resume();
    await new Promise((resolve) => socket.on("close", resolve));
    assert.equal((await ask("/v1/drains")).status, 200);
  });

  it("replaces the socket of an exited process", async () => {
    await stop();
    const leftover = createServer();
    await new Promise<void>((resolve) => leftover.listen(path, resolve));
    // Simulates a killed process, whose socket file remains.
    const other = `${path}.kept`;
    const { linkSync, renameSync } = await import("node:fs");
    linkSync(path, other);
    await new Promise((resolve) => leftover.close(resolve));
    renameSync(other, path);
    stop = await open();
    assert.equal((await ask("/v1/drains")).status, 200);
    assert.deepEqual(log.lines, []);
  });

  it("keeps and reports a socket in use, and a file that is not a socket", async () => {
    const second = await open();
    assert.equal(log.lines.length, 1);
    await second();
    assert.equal((await ask("/v1/drains")).status, 200);
    await stop();
    writeFileSync(path, "precious");
    stop = await open();
    assert.equal(statSync(path).isFile(), true);
    assert.match(String(log.lines[1]?.keys["err"]), /not a socket/);
  });

  it("is removed when it stops", async () => {
    await stop();
    assert.equal(statSync(path, { throwIfNoEntry: false }), undefined);
    stop = async () => {};
  });
});
