import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Reflector } from "../../../../src/api/cluster/reflector.ts";
import { listenerTarget } from "../../../../src/api/cluster/reflector-target.ts";
import { watchedResources } from "../../../../src/api/cluster/watched-resources.ts";
import type { ListQuarantine, ServedAddresses } from "../../../../src/api/source.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { type ApiObject, endpoint, endpointSlice } from "../../../support/objects.ts";
import { RecordingListener } from "../../../support/recording-listener.ts";
import { ip } from "../../../support/records.ts";
import { ScriptedConnection } from "./scripted-connection.ts";

class DoubtfulListener extends RecordingListener {
  onListQuarantine({ kind, outcome, known, missing }: ListQuarantine): void {
    this.events.push(`${outcome} ${kind} ${missing}/${known}`);
  }
}

/** A reflector of slices with a guard. The test controls the server side. */
class Stage {
  readonly clock = new FakeClock();
  readonly connection = new ScriptedConnection();
  readonly told = new DoubtfulListener();
  readonly #abort = new AbortController();

  constructor(test: TestContext, servedBefore?: ServedAddresses, percent = 50) {
    const { clock, connection } = this;
    const dependencies = { clock, connection, log: silentLogger, random: () => 0 };
    const guard = { percent };
    const { endpointslices } = watchedResources("n");
    const target = listenerTarget(endpointslices, this.told, servedBefore);
    const reflector = new Reflector({ ...dependencies, guard }, endpointslices, target);
    void reflector.run(this.#abort.signal);
    test.after(() => this.#abort.abort());
  }

  /** Answers the pending list. */
  async list(version: string, ...items: readonly ApiObject[]): Promise<void> {
    await this.clock.advance(0);
    assert.equal(this.connection.latest.query["watch"], undefined);
    const body = this.connection.latest.answer();
    body.send(
      JSON.stringify({ kind: "EndpointSliceList", metadata: { resourceVersion: version }, items }),
    );
    body.end();
    await this.clock.advance(0);
  }

  /** Makes the server forget the watch's position. */
  async forget(): Promise<void> {
    this.connection.latest.answer(410).end();
    await this.clock.advance(2_000);
  }
}

function sliceOf(name: string, count: number, first = 0): ApiObject {
  const endpoints = Array.from({ length: count }, (_, index) =>
    endpoint(`10.0.1.${first + index}`),
  );
  return endpointSlice({ name, service: "web", endpoints });
}

const twenty = new Set(Array.from({ length: 20 }, (_, index) => ip(`10.0.1.${index}`)));
const servedBefore: ServedAddresses = {
  services: async () => new Set(),
  endpointslices: async () => twenty,
};

describe("a list after a gap in the history", () => {
  it("removes nothing until a second list, of the latest state, confirms it", async (test) => {
    const stage = new Stage(test);
    await stage.list("10", sliceOf("a", 10), sliceOf("b", 10, 10));
    stage.told.take();
    await stage.forget();
    await stage.list("11", sliceOf("a", 1));
    assert.deepEqual(stage.told.take(), ["held endpointslices 19/20"]);
    await stage.clock.advance(10_000);
    assert.equal(stage.connection.latest.query["resourceVersion"], "");
    await stage.list("12", sliceOf("a", 1));
    assert.deepEqual(stage.told.take(), [
      "confirmed endpointslices 19/20",
      "~endpointslices default/a",
      "-endpointslices default/b",
    ]);
    assert.equal(stage.connection.latest.query["resourceVersion"], "12");
  });

  it("without any object also removes nothing, however few objects existed", async (test) => {
    const stage = new Stage(test);
    await stage.list("10", sliceOf("a", 1));
    stage.told.take();
    await stage.forget();
    await stage.list("11");
    assert.deepEqual(stage.told.take(), ["held endpointslices 1/1"]);
    await stage.clock.advance(10_000);
    await stage.list("12", sliceOf("a", 1));
    assert.deepEqual(stage.told.take(), ["refuted endpointslices 0/1"]);
    await stage.forget();
    await stage.list("13", sliceOf("a", 0));
    assert.deepEqual(stage.told.take(), ["~endpointslices default/a"]);
  });

  it("is discarded if the second list contains everything", async (test) => {
    const stage = new Stage(test);
    await stage.list("10", sliceOf("a", 20));
    stage.told.take();
    await stage.forget();
    await stage.list("11");
    await stage.clock.advance(10_000);
    await stage.list("12", sliceOf("a", 20));
    assert.deepEqual(stage.told.take(), [
      "held endpointslices 20/20",
      "refuted endpointslices 0/20",
    ]);
  });

  it("is applied after a minute without a second list, and the watch starts from it", async (test) => {
    const stage = new Stage(test);
    await stage.list("10", sliceOf("a", 20));
    stage.told.take();
    await stage.forget();
    await stage.list("11");
    await stage.clock.advance(10_000);
    stage.connection.latest.refuse();
    await stage.clock.advance(49_999);
    assert.deepEqual(stage.told.take(), ["held endpointslices 20/20"]);
    await stage.clock.advance(1);
    assert.deepEqual(stage.told.take(), [
      "expired endpointslices 20/20",
      "-endpointslices default/a",
    ]);
  });

  it("is applied after a minute while a second list arrives, and removes nothing that the second list contains", async (test) => {
    const stage = new Stage(test);
    await stage.list("10", sliceOf("a", 20), sliceOf("b", 1, 30));
    stage.told.take();
    await stage.forget();
    await stage.list("11", sliceOf("b", 1, 40));
    await stage.clock.advance(45_000);
    const body = stage.connection.latest.answer();
    const items = [sliceOf("c", 20), sliceOf("b", 1, 50)].map((item) => JSON.stringify(item));
    const head = '{"kind":"EndpointSliceList","metadata":{"resourceVersion":"12"},"items":[';
    body.send(`${head}${items.join(",")},`);
    await stage.clock.advance(5_000);
    stage.told.take();
    await stage.clock.advance(10_000);
    body.send(`${JSON.stringify(sliceOf("d", 1, 60))}]}`);
    body.end();
    await stage.clock.advance(0);
    const slices = [...stage.told.slices].map(([name, { endpoints }]) => [
      name,
      endpoints[0]?.address,
    ]);
    assert.deepEqual(slices.toSorted(), [
      ["default/b", "10.0.1.50"],
      ["default/c", "10.0.1.0"],
      ["default/d", "10.0.1.60"],
    ]);
  });

  it("reports new objects immediately, and does not treat moved endpoints as missing", async (test) => {
    const stage = new Stage(test);
    await stage.list("10", sliceOf("a", 20));
    stage.told.take();
    await stage.forget();
    await stage.list("11", sliceOf("b", 20));
    assert.deepEqual(stage.told.take(), ["+endpointslices default/b", "-endpointslices default/a"]);
  });

  it("is applied immediately if the guard is disabled", async (test) => {
    const stage = new Stage(test, undefined, 0);
    await stage.list("10", sliceOf("a", 20));
    stage.told.take();
    await stage.forget();
    await stage.list("11");
    assert.deepEqual(stage.told.take(), ["-endpointslices default/a"]);
  });
});

describe("the first list", () => {
  it("is compared with the addresses that the node served before startup", async (test) => {
    const stage = new Stage(test, servedBefore);
    await stage.list("10", sliceOf("a", 9));
    assert.deepEqual(stage.told.take(), ["+endpointslices default/a", "held endpointslices 11/20"]);
    await stage.clock.advance(10_000);
    await stage.list("11", sliceOf("a", 20));
    assert.deepEqual(stage.told.take(), [
      "~endpointslices default/a",
      "refuted endpointslices 0/20",
      "synced endpointslices",
    ]);
  });

  it("is applied immediately if it contains all served addresses", async (test) => {
    const stage = new Stage(test, servedBefore);
    await stage.list("10", sliceOf("a", 10));
    assert.deepEqual(stage.told.take(), ["+endpointslices default/a", "synced endpointslices"]);
  });

  it("waits until the served addresses have been read, and is requested again if they cannot be read", async (test) => {
    const reading = Promise.withResolvers<typeof twenty>();
    let asked = 0;
    const endpointslices = async (): Promise<typeof twenty> => {
      asked += 1;
      if (asked === 1) throw new Error("EPERM");
      return reading.promise;
    };
    const stage = new Stage(test, { ...servedBefore, endpointslices });
    await stage.list("10", sliceOf("a", 1));
    await stage.clock.advance(2_000);
    await stage.list("10", sliceOf("a", 1));
    assert.deepEqual(stage.told.take(), ["+endpointslices default/a"]);
    reading.resolve(twenty);
    await stage.clock.advance(0);
    assert.deepEqual(stage.told.take(), ["held endpointslices 19/20"]);
  });

  it("is applied after a minute at the latest", async (test) => {
    const stage = new Stage(test, servedBefore);
    await stage.list("10");
    await stage.clock.advance(60_000);
    assert.deepEqual(stage.told.take(), [
      "held endpointslices 20/20",
      "expired endpointslices 20/20",
      "synced endpointslices",
    ]);
  });
});

describe("a watch event", () => {
  it("is never quarantined, regardless of what it removes", async (test) => {
    const stage = new Stage(test);
    await stage.list("10", sliceOf("a", 20));
    stage.told.take();
    const body = stage.connection.latest.answer();
    const { metadata, ...rest } = sliceOf("a", 20);
    const object = { ...rest, metadata: { ...metadata, resourceVersion: "11" } };
    body.send(`${JSON.stringify({ type: "DELETED", object })}\n`);
    await stage.clock.advance(0);
    assert.deepEqual(stage.told.take(), ["-endpointslices default/a"]);
  });
});
