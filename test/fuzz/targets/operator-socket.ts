/** Raw bytes to the operator socket of a daemon that serves a few Services. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock as clock } from "../../../src/base/clock.ts";
import { silentLogger as log } from "../../../src/base/log.ts";
import { openOperatorSocket } from "../../../src/daemon/operator/operator-socket.ts";
import { ApiContact } from "../../../src/daemon/report/api-contact.ts";
import { ProxyHealth } from "../../../src/daemon/report/proxy-health.ts";
import { FakeNode } from "../../support/fake-node.ts";
import type { NamedObject } from "../../support/memory-source.ts";
import { endpointSlice, node, service } from "../../support/objects.ts";
import { silentMetrics } from "../../support/silent-metrics.ts";
import { readCorpusTexts } from "../corpus.ts";
import { mutatedTexts } from "../mutations.ts";
import { ask, statusesIn } from "../raw-http.ts";
import type { FuzzTarget, Verdict } from "../target.ts";

/** The socket's timeout for one answer. */
const timeoutMs = 20_000;
const good = [100, 200];
/** 500 and a dead daemon are findings. 503 is the answer to a second request on one connection. */
const refusals = [400, 404, 405, 408, 413, 417, 431, 503];

const targetsOfSocket = [
  "/v1/status",
  "/v1/drains",
  "/v1/services?namespace=default&name=web&endpoints=true&connections=true",
  "/v1/plan?protocol=TCP&address=10.96.0.10&port=80&from=10.244.1.7",
  "/v1/plan?namespace=default&name=web",
  "/v1/plan?protocol=ICMP&address=%3A%3A&port=-0&from=%00",
  "/v1/services?name=%FF%00&namespace=../..&endpoints=TRUE&x[]=1",
];
const requests = targetsOfSocket.map((target) => `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`);
const kept: readonly string[] = [
  ...requests,
  requests.join(""),
  "POST /v1/status HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
  ...readCorpusTexts("http-requests").map((text) => text.replaceAll("\n", "\r\n")),
];

interface Opened {
  readonly path: string;
  stop(): Promise<void>;
}

async function open(): Promise<Opened> {
  const folder = mkdtempSync(join(tmpdir(), "operator-fuzz-"));
  const path = join(folder, "name.sock");
  const onNode = new FakeNode({});
  const objects = [node(), service(), endpointSlice()] as readonly unknown[];
  onNode.source.apply(...(objects as readonly NamedObject[]));
  await onNode.start();
  await onNode.settle();
  const { view, config } = onNode;
  const health = new ProxyHealth(clock, 60_000);
  const apiContact = new ApiContact(clock, silentMetrics);
  const close = await openOperatorSocket(path, {
    clock,
    log,
    timeoutMs,
    view: () => view,
    configuration: () => ({}),
    status: () => ({ clock, config, health, apiContact, startedAtMs: 0, view }),
  });
  return {
    path,
    stop: async () => {
      await close();
      await onNode.stop();
      rmSync(folder, { recursive: true });
    },
  };
}

function verdictOn(answer: string): Verdict {
  const statuses = statusesIn(answer);
  if (statuses === undefined) return "refused";
  for (const status of statuses) assert.ok([...good, ...refusals].includes(status), `${status}`);
  return statuses.includes(200) ? "taken" : "refused";
}

let opened: Promise<Opened> | undefined;

export const targets: readonly FuzzTarget<string>[] = [
  {
    name: "operator-socket",
    isDecoder: false,
    kept,
    inputs: mutatedTexts(kept),
    run: async (text) => {
      opened ??= open();
      return verdictOn(await ask({ path: (await opened).path }, text));
    },
    stop: async () => (await opened)?.stop(),
  },
];
