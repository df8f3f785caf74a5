import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate, setTimeout } from "node:timers/promises";
import type { ApiServer } from "../../../support/api-server/api-server.ts";
import type { Fault, FaultEffect } from "../../../support/api-server/faults.ts";
import { resources } from "../../../support/api-server/resources.ts";
import { endpointSlice, service } from "../../../support/objects.ts";
import type { RecordingListener } from "../../../support/recording-listener.ts";
import { seededRandom } from "../../../support/seeds.ts";
import { decode } from "../decode/decoding.ts";
import { startCluster } from "./cluster.ts";

const effects: readonly FaultEffect[] = [
  { effect: "reset" },
  { effect: "cut", afterBytes: 700 },
  { effect: "truncate", afterBytes: 900 },
  { effect: "garbage", text: "]}\n" },
  { effect: "status", code: 500 },
  { effect: "status", code: 410 },
  { effect: "status", code: 429, retryAfterSeconds: 1 },
  { effect: "slow", chunkBytes: 400, delayMs: 1 },
];

/** One random step: a change to an object, or a fault. */
function step(server: ApiServer, random: () => number): void {
  const pick = (count: number): number => Math.floor(random() * count);
  const name = `s${pick(12)}`;
  const actions: readonly (() => void)[] = [
    () => server.apply(service({ name, clusterIps: [`10.96.0.${1 + pick(200)}`] })),
    () => server.apply(service({ name, clusterIps: ["None"] })),
    () => server.delete(service({ name })),
    () => server.apply(endpointSlice({ service: name, endpoints: [`10.244.0.${1 + pick(200)}`] })),
    () => server.delete(endpointSlice({ service: name })),
    () => server.faults.add(faultOf(effects[pick(effects.length)], pick(2))),
    () => server.resetConnections(),
    () => server.endWatches(),
    () => server.store.compact(),
    () => server.sendBookmarks(),
  ];
  actions[random() < 0.8 ? pick(5) : 5 + pick(5)]?.();
}

function faultOf(effect: FaultEffect | undefined, onList: number): Fault {
  return { ...(effect ?? { effect: "reset" }), on: onList === 1 ? "list" : "watch" };
}

/** The objects that a listener should have: the server's objects that kube-ipvs handles, by kind and name. */
function expected(server: ApiServer): ReadonlyMap<string, unknown> {
  const records = new Map<string, unknown>();
  for (const resource of resources) {
    for (const object of server.store.list(resource)) {
      const kind = object.kind === "Service" ? "services" : "endpointslices";
      const { record } = decode(kind, object);
      if (record !== undefined) records.set(`${kind} ${record.name}`, record);
    }
  }
  return records;
}

function known(told: RecordingListener): ReadonlyMap<string, unknown> {
  return new Map<string, unknown>([
    ...[...told.services].map(([name, record]) => [`services ${name}`, record] as const),
    ...[...told.slices].map(([name, record]) => [`endpointslices ${name}`, record] as const),
  ]);
}

function isEqual(left: ReadonlyMap<string, unknown>, right: ReadonlyMap<string, unknown>): boolean {
  try {
    assert.deepEqual(left, right);
    return true;
  } catch {
    return false;
  }
}

describe("after many changes and faults, the listener has the same objects as the server", () => {
  for (const seed of [1, 2, 3]) {
    it(`storm ${seed}`, async (test) => {
      const { server, told } = await startCluster(test, { speed: 5000 });
      server.lists.ignoresLimit = seed === 2;
      server.tellsGoneAsEvent = seed === 3;
      const random = seededRandom(seed);
      for (let count = 0; count < 400; count += 1) {
        step(server, random);
        // Lets the other side run in between, sometimes as long as a short back-off.
        await (random() < 0.1 ? setTimeout(2) : setImmediate());
      }
      server.faults.clear();
      // Sends a final event for each resource, so that the listener checks again when all objects are equal.
      server.apply(service({ name: "last" }), endpointSlice({ service: "last" }));
      await told.until(
        () => told.slices.has("default/last-a") && told.services.has("default/last"),
      );
      await told.until(() => isEqual(known(told), expected(server)));
      assert.ok(server.requests.length > 30, `${server.requests.length} requests`);
    });
  }
});
