/** The API server is down, slow or faulty. The kernel keeps its state and later gets the changes. */
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import type { FaultEffect } from "../../support/api-server/faults.ts";
import type { FaultyNode } from "../faulty-node.ts";
import type { Row } from "../row.ts";

/** Every kind of object is listed and watched separately. */
const kinds = 3;
const awayMs = 2_000;

async function refuse(node: FaultyNode): Promise<string> {
  await node.api.stop();
  node.churnUnseen();
  await pause(awayMs);
  assert.equal(await node.healthStatus(), 200);
  await node.startApi();
  return `unavailable for ${awayMs / 1_000} s`;
}

async function slow(node: FaultyNode): Promise<string> {
  await node.api.fault({
    on: "list",
    effect: "slow",
    chunkBytes: 20_000,
    delayMs: 50,
    times: kinds,
  });
  await node.forceLists();
  await node.churn();
  await node.faultsDone();
  return "lists in pieces of 20 kB, 50 ms apart";
}

/** Resets every watch for some time, including new ones. */
async function resetWatches(node: FaultyNode): Promise<string> {
  await node.api.fault({ on: "watch", effect: "reset", times: 2 * kinds });
  await node.api.command("reset");
  await node.churn();
  await node.faultsDone();
  return `${2 * kinds} watches reset`;
}

function answerStatus(code: number): Row["inject"] {
  return async (node) => {
    await node.api.fault({ on: "any", effect: "status", code, times: kinds });
    await node.api.command("reset");
    await node.churn();
    await node.faultsDone();
    return `${kinds} requests answered with ${code}`;
  };
}

/** Corrupts lists and watches with these effects. */
function spoil(what: string, ...effects: readonly FaultEffect[]): Row["inject"] {
  return async (node) => {
    for (const on of ["list", "watch"] as const) {
      for (const effect of effects) await node.api.fault({ ...effect, on, times: kinds });
    }
    await node.forceLists();
    await node.churn();
    await node.faultsDone();
    return what;
  };
}

async function expire(node: FaultyNode): Promise<string> {
  const mark = node.mark();
  await node.restartApi({ files: node.certificates.expired });
  await node.until("the certificate is rejected", () =>
    node.hasPrinted("certificate has expired", mark),
  );
  node.churnUnseen();
  await node.restartApi();
  return "rejected as expired";
}

/** Each try uses a newly started program, because delays after failures would grow from try to try. */
const kindsOfTrouble: readonly Pick<Row, "name" | "inject">[] = [
  { name: "API server unavailable", inject: refuse },
  { name: "API server slow", inject: slow },
  { name: "API server resets every watch", inject: resetWatches },
  { name: "API server answers 500", inject: answerStatus(500) },
  { name: "API server answers 410", inject: answerStatus(410) },
  { name: "API server answers 429", inject: answerStatus(429) },
  {
    name: "API server truncates bodies",
    inject: spoil("after 900 bytes", { effect: "truncate", afterBytes: 900 }),
  },
  {
    name: "API server corrupts bodies",
    inject: spoil("text before each body", { effect: "garbage", text: '{"type":"\u0000 \n' }),
  },
  { name: "API server's certificate expired", inject: expire },
];

export const apiServer: readonly Row[] = kindsOfTrouble.map((trouble) => ({
  ...trouble,
  short: 1,
  long: 5,
  startsAnew: true,
}));
