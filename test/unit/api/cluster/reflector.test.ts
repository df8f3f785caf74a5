import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { describe, it, type TestContext } from "node:test";
import { Reflector } from "../../../../src/api/cluster/reflector.ts";
import { listenerTarget } from "../../../../src/api/cluster/reflector-target.ts";
import { watchedResources } from "../../../../src/api/cluster/watched-resources.ts";
import type { ServiceRecord } from "../../../../src/api/objects.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { type ApiObject, service } from "../../../support/objects.ts";
import { RecordingListener } from "../../../support/recording-listener.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { type Body, ScriptedConnection } from "./scripted-connection.ts";

/** A running reflector for Services. The test controls the server side and the clock. */
class Stage {
  readonly clock = new FakeClock();
  readonly connection = new ScriptedConnection();
  readonly told = new RecordingListener();
  readonly abort = new AbortController();
  readonly reflector: Reflector<ServiceRecord>;
  readonly run: Promise<void>;
  readonly log = new RecordingLogger();

  constructor(test: TestContext) {
    const { clock, connection, log } = this;
    const dependencies = { clock, connection, log, random: () => 0 };
    const { services } = watchedResources("n");
    this.reflector = new Reflector(dependencies, services, listenerTarget(services, this.told));
    this.run = this.reflector.run(this.abort.signal);
    test.after(() => this.abort.abort());
  }

  /** `level event` for each line that is printed without -v. */
  get lines(): readonly string[] {
    const loud = this.log.lines.filter(({ level }) => level !== "verbose");
    return loud.map(({ level, event }) => `${level} ${event}`);
  }

  /** The number of requests that failed for this reason. */
  failures(reason: string): number {
    return this.log.lines.filter(({ keys }) => keys["reason"] === reason).length;
  }

  get query(): Readonly<Record<string, string>> {
    return this.connection.latest.query;
  }

  get requestCount(): number {
    return this.connection.requests.length;
  }

  /** Waits for everything that needs no time. */
  settle(): Promise<void> {
    return this.clock.advance(0);
  }

  /** Answers the pending list, so that a watch from version 10 begins. Returns the watch's body. */
  async toWatch(...objects: readonly ApiObject[]): Promise<Body> {
    await this.settle();
    await this.answerList("10", ...objects);
    this.told.take();
    const body = this.connection.latest.answer();
    await this.settle();
    return body;
  }

  /** Answers the pending list. */
  async answerList(resourceVersion: string, ...objects: readonly ApiObject[]): Promise<void> {
    const list = this.connection.latest.answer();
    list.send(listText(resourceVersion, objects));
    list.end();
    await this.settle();
  }

  /** Fails the pending request with a status and a Retry-After, or without an answer. */
  async fail(status?: number, headers: Readonly<Record<string, string>> = {}): Promise<void> {
    await this.settle();
    if (status === undefined) this.connection.latest.refuse();
    else this.connection.latest.answer(status, headers).end();
    await this.settle();
  }

  /** Returns the number of milliseconds until the next request. */
  async untilNextRequest(): Promise<number> {
    const count = this.requestCount;
    const startMs = this.clock.monotonicMs();
    while (this.requestCount === count) await this.clock.advance(100);
    return this.clock.monotonicMs() - startMs;
  }
}

function listText(resourceVersion: string, items: readonly ApiObject[], token = ""): string {
  const metadata = { resourceVersion, ...(token === "" ? {} : { continue: token }) };
  return JSON.stringify({ kind: "ServiceList", metadata, items });
}

function eventText(type: string, object: ApiObject, resourceVersion: string): string {
  const stamped = { ...object, metadata: { ...object.metadata, resourceVersion } };
  return `${JSON.stringify({ type, object: stamped })}\n`;
}

describe("a reflector's requests", () => {
  it("list any state first, then watch from that state", async (test) => {
    const stage = new Stage(test);
    await stage.settle();
    assert.deepEqual(stage.query, {
      labelSelector: "!service.kubernetes.io/service-proxy-name",
      fieldSelector: "spec.clusterIP!=None",
      limit: "500",
      resourceVersion: "0",
    });
    await stage.toWatch();
    assert.deepEqual(stage.query, {
      labelSelector: "!service.kubernetes.io/service-proxy-name",
      fieldSelector: "spec.clusterIP!=None",
      watch: "true",
      allowWatchBookmarks: "true",
      resourceVersion: "10",
      timeoutSeconds: "300",
    });
  });

  it("continue after an object without a valid name, in a list and in a watch", async (test) => {
    const stage = new Stage(test);
    await stage.settle();
    const nameless = { ...service(), metadata: {} };
    const list = stage.connection.latest.answer();
    list.send(listText("10", [nameless, service()]));
    list.end();
    await stage.settle();
    assert.deepEqual(stage.told.take(), ["+services default/web", "synced services"]);
    const body = stage.connection.latest.answer();
    for (const type of ["ADDED", "DELETED"]) body.send(eventText(type, nameless, "11"));
    body.send(eventText("DELETED", service(), "12"));
    body.end();
    await stage.settle();
    assert.deepEqual(stage.told.take(), ["-services default/web"]);
    assert.equal(stage.query["resourceVersion"], "12");
  });

  it("immediately resume a watch that ends after its last event", async (test) => {
    const stage = new Stage(test);
    const body = await stage.toWatch();
    body.send(eventText("ADDED", service(), "11") + eventText("BOOKMARK", service(), "15"));
    body.end();
    await stage.settle();
    assert.equal(stage.query["resourceVersion"], "15");
    assert.deepEqual(stage.told.take(), ["+services default/web"]);
  });

  it("wait between watches that end immediately", async (test) => {
    const stage = new Stage(test);
    (await stage.toWatch()).end();
    assert.equal(await stage.untilNextRequest(), 800);
    assert.equal(stage.query["resourceVersion"], "10");
    assert.equal(stage.failures("short-watch"), 1);
  });

  it("are repeated indefinitely with growing delays", async (test) => {
    const stage = new Stage(test);
    const delays: number[] = [];
    for (let failure = 0; failure < 8; failure += 1) {
      await stage.fail();
      delays.push(await stage.untilNextRequest());
    }
    assert.deepEqual(delays, [800, 1600, 3200, 6400, 12_800, 20_000, 20_000, 20_000]);
  });

  it("wait as long as the server requests", async (test) => {
    const stage = new Stage(test);
    await stage.fail(429, { "retry-after": "7" });
    assert.equal(await stage.untilNextRequest(), 7000);
    assert.equal(stage.failures("HTTP429"), 1);
  });

  it("resume the watch from the same version while the server cannot be reached", async (test) => {
    const stage = new Stage(test);
    (await stage.toWatch()).send(eventText("ADDED", service(), "11"));
    await stage.clock.advance(150_000);
    for (let failure = 0; failure < 5; failure += 1) {
      await stage.untilNextRequest();
      await stage.fail();
    }
    await stage.untilNextRequest();
    await stage.answerList("15");
    assert.equal(stage.query["watch"], "true");
    assert.equal(stage.query["resourceVersion"], "11");
    assert.deepEqual(stage.told.take(), ["+services default/web"]);
  });

  it("list again after three failures of a watch", async (test) => {
    const stage = new Stage(test);
    (await stage.toWatch()).send("{nonsense\n");
    for (const _ of [1, 2]) {
      await stage.untilNextRequest();
      assert.equal(stage.query["watch"], "true");
      await stage.fail(500);
    }
    await stage.untilNextRequest();
    assert.equal(stage.query["watch"], undefined);
    assert.equal(stage.failures("malformed-answer"), 1);
  });

  it("list again after three watches in a row that end immediately", async (test) => {
    const stage = new Stage(test);
    (await stage.toWatch()).end();
    for (const _ of [1, 2]) {
      await stage.untilNextRequest();
      assert.equal(stage.query["watch"], "true");
      stage.connection.latest.answer().end();
    }
    await stage.untilNextRequest();
    assert.equal(stage.failures("short-watch"), 3);
    assert.equal(stage.query["watch"], undefined);
    await stage.answerList("20", service());
    assert.deepEqual(stage.told.take(), ["+services default/web"]);
  });

  it("continue to watch if failures are rare", async (test) => {
    const stage = new Stage(test);
    (await stage.toWatch()).end();
    for (const version of ["11", "12", "13"]) {
      await stage.untilNextRequest();
      await stage.fail(500);
      await stage.untilNextRequest();
      const body = stage.connection.latest.answer();
      body.send(eventText("BOOKMARK", service(), version));
      body.send('{"type":');
      body.end();
    }
    await stage.untilNextRequest();
    assert.equal(stage.query["resourceVersion"], "13");
    assert.equal(stage.failures("malformed-answer"), 3);
    assert.equal(
      stage.connection.requests.filter(({ query }) => query["watch"] === undefined).length,
      1,
    );
  });

  it("list without pages if the server's pages never end", async (test) => {
    const stage = new Stage(test);
    for (const _ of [1, 2]) {
      await stage.settle();
      const page = stage.connection.latest.answer();
      page.send(listText("10", [service()], "same"));
      page.end();
    }
    await stage.settle();
    assert.equal(stage.failures("endless-list"), 1);
    assert.deepEqual(stage.lines, ["warn Cannot read from the API server, retrying"]);
    await stage.untilNextRequest();
    assert.equal(stage.query["limit"], undefined);
    assert.equal(stage.query["continue"], undefined);
    await stage.toWatch(service());
    assert.equal(stage.query["watch"], "true");
  });

  it("request the latest state after 410", async (test) => {
    const stage = new Stage(test);
    const body = await stage.toWatch();
    body.send('{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n');
    await stage.untilNextRequest();
    assert.equal(stage.query["watch"], undefined);
    assert.equal(stage.query["resourceVersion"], "");
    assert.equal(stage.query["limit"], "500");
  });

  it("list again if the server returns to an older history", async (test) => {
    const stage = new Stage(test);
    const body = await stage.toWatch();
    body.send(eventText("ADDED", service({ name: "late" }), "11"));
    body.send(eventText("ADDED", service({ name: "restored" }), "9"));
    await stage.settle();
    assert.deepEqual(stage.told.take(), ["+services default/late"]);
    assert.deepEqual(stage.lines, ["warn Cannot read from the API server, retrying"]);
    await stage.untilNextRequest();
    assert.equal(stage.query["watch"], undefined);
    assert.equal(stage.query["resourceVersion"], "");
    assert.equal(stage.failures("older-history"), 1);
  });

  it("list again after an outage if the server returned to an older history", async (test) => {
    const stage = new Stage(test);
    (await stage.toWatch(service())).end();
    await stage.untilNextRequest();
    await stage.fail();
    await stage.untilNextRequest();
    assert.deepEqual({ ...stage.query }, { limit: "1", resourceVersion: "" });
    await stage.answerList("9", service({ name: "restored" }));
    assert.deepEqual(stage.told.take(), []);
    await stage.untilNextRequest();
    assert.equal(stage.query["watch"], undefined);
    assert.equal(stage.query["resourceVersion"], "");
    await stage.answerList("9", service({ name: "restored" }));
    assert.deepEqual(stage.told.take(), ["+services default/restored", "-services default/web"]);
    assert.equal(stage.query["resourceVersion"], "9");
  });

  it("list again after three silent watches in a row", async (test) => {
    const stage = new Stage(test);
    await stage.toWatch();
    for (const _ of [1, 2]) {
      await stage.clock.advance(150_000);
      await stage.untilNextRequest();
      assert.equal(stage.query["watch"], "true");
      stage.connection.latest.answer();
    }
    await stage.clock.advance(150_000);
    await stage.untilNextRequest();
    assert.equal(stage.query["watch"], undefined);
    assert.equal(stage.query["resourceVersion"], "10");
    assert.equal(stage.query["resourceVersionMatch"], "NotOlderThan");
  });

  it("request the latest state if the server does not have the requested version", async (test) => {
    const stage = new Stage(test);
    (await stage.toWatch()).send("{nonsense\n");
    for (const _ of [1, 2]) {
      await stage.untilNextRequest();
      await stage.fail(500);
    }
    await stage.untilNextRequest();
    assert.equal(stage.query["resourceVersion"], "10");
    await stage.fail();
    await stage.untilNextRequest();
    assert.equal(stage.query["resourceVersion"], "10");
    // The Status of the error "Too large resource version".
    await stage.fail(504);
    await stage.untilNextRequest();
    assert.equal(stage.query["watch"], undefined);
    assert.equal(stage.query["resourceVersion"], "");
    assert.equal(stage.query["resourceVersionMatch"], undefined);
  });

  it("contain no version together with a page token", async (test) => {
    const stage = new Stage(test);
    await stage.settle();
    const page = stage.connection.latest.answer();
    page.send(listText("10", [service()], "next"));
    page.end();
    await stage.settle();
    assert.equal(stage.query["continue"], "next");
    assert.equal("resourceVersion" in stage.query, false);
    assert.deepEqual(stage.told.take(), ["+services default/web"]);
  });
});

describe("a silent connection", () => {
  it("is canceled after 150 s in a watch", async (test) => {
    const stage = new Stage(test);
    const body = await stage.toWatch();
    const watch = stage.connection.latest;
    await stage.clock.advance(149_999);
    body.send(eventText("BOOKMARK", service(), "12"));
    await stage.clock.advance(149_999);
    assert.equal(watch.isAborted(), false);
    await stage.clock.advance(1);
    assert.equal(watch.isAborted(), true);
    assert.equal(stage.failures("idle-timeout"), 1);
    await stage.untilNextRequest();
    assert.equal(stage.query["resourceVersion"], "12");
  });

  it("is canceled after 60 s before and in a list", async (test) => {
    const stage = new Stage(test);
    await stage.clock.advance(60_000);
    assert.equal(stage.connection.latest.isAborted(), true);
    await stage.untilNextRequest();
    stage.connection.latest.answer().send('{"kind":"ServiceList","items":[');
    await stage.clock.advance(60_000);
    assert.equal(stage.connection.latest.isAborted(), true);
    assert.equal(stage.failures("idle-timeout"), 2);
  });

  it("leaves no timer and no listener behind", async (test) => {
    const stage = new Stage(test);
    (await stage.toWatch()).send(eventText("ADDED", service(), "11"));
    await stage.clock.advance(600_000);
    assert.equal(stage.clock.pendingTimers, 1);
    assert.equal(getEventListeners(stage.abort.signal, "abort").length, 0);
    stage.abort.abort();
    await stage.run;
    assert.equal(stage.clock.pendingTimers, 0);
  });
});

describe("what a reflector reports", () => {
  const two = [service({ name: "a" }), service({ name: "b" })];

  it("is each item as soon as it arrives, and the end of the list", async (test) => {
    const stage = new Stage(test);
    await stage.settle();
    const text = listText("10", two);
    const list = stage.connection.latest.answer();
    list.send(text.slice(0, -3));
    await stage.settle();
    assert.deepEqual(stage.told.take(), ["+services default/a"]);
    list.send(text.slice(-3));
    list.end();
    await stage.settle();
    assert.deepEqual(stage.told.take(), ["+services default/b", "synced services"]);
  });

  it("is no removal before a list is complete", async (test) => {
    const stage = new Stage(test);
    const body = await stage.toWatch(...two);
    body.send('{"type":"ERROR","object":{"code":410}}\n');
    await stage.untilNextRequest();
    const list = stage.connection.latest.answer();
    list.send(listText("20", [service({ name: "b" })]).slice(0, -1));
    list.end();
    await stage.settle();
    assert.deepEqual(stage.told.take(), []);
    await stage.untilNextRequest();
    const again = stage.connection.latest.answer();
    again.send(listText("20", [service({ name: "b" })]));
    again.end();
    await stage.settle();
    assert.deepEqual(stage.told.take(), ["-services default/a"]);
  });

  const strange = [
    "{}",
    '{"kind":"Status","items":[]}',
    '{"kind":"Status","metadata":{"resourceVersion":"20"}}',
    '{"kind":"ServiceList","items":[]}',
    "[]",
    "OK",
  ];
  for (const text of strange) {
    it(`is nothing if the response to a list is ${text}`, async (test) => {
      const stage = new Stage(test);
      const body = await stage.toWatch(...two);
      body.send('{"type":"ERROR","object":{"code":410}}\n');
      await stage.untilNextRequest();
      const list = stage.connection.latest.answer();
      list.send(text);
      list.end();
      await stage.settle();
      assert.deepEqual(stage.told.take(), []);
      assert.equal(stage.failures("malformed-answer"), 1);
    });
  }

  it("is a removal if a Service becomes headless", async (test) => {
    const stage = new Stage(test);
    const body = await stage.toWatch(...two);
    body.send(eventText("MODIFIED", service({ name: "a", clusterIps: ["None"] }), "11"));
    await stage.settle();
    assert.deepEqual(stage.told.take(), ["-services default/a"]);
  });

  it("is nothing for an update that changes no used field", async (test) => {
    const stage = new Stage(test);
    const body = await stage.toWatch(...two);
    const annotated = service({ name: "a", metadata: { annotations: { x: "y" } } });
    body.send(eventText("MODIFIED", annotated, "11"));
    await stage.settle();
    assert.deepEqual(stage.told.take(), []);
  });

  it("is listed as invalid until it is repaired, deleted or absent from a list", async (test) => {
    const stage = new Stage(test);
    const invalid = (): readonly string[] =>
      [...stage.reflector.invalidObjects()].map((one) => `${one.subject} ${one.invalidFields}`);
    const broken = (name: string): ApiObject => service({ name, clusterIps: ["x"], ports: [] });
    const body = await stage.toWatch(broken("a"), broken("b"), broken("c"), service());
    assert.deepEqual(invalid(), ["default/a 2", "default/b 2", "default/c 2"]);
    body.send(eventText("MODIFIED", service({ name: "a" }), "11"));
    body.send(eventText("DELETED", broken("b"), "12"));
    body.send(eventText("MODIFIED", service({ clusterIps: ["x"] }), "13"));
    await stage.settle();
    assert.deepEqual(invalid(), ["default/c 2", "default/web 2"]);
    body.send(`${JSON.stringify({ type: "ERROR", object: { kind: "Status", code: 410 } })}\n`);
    await stage.untilNextRequest();
    await stage.answerList("20", broken("d"), service({ name: "a" }));
    assert.deepEqual(invalid(), ["default/d 2"]);
  });

  it("is a removal even if the deleted object is invalid", async (test) => {
    const stage = new Stage(test);
    const body = await stage.toWatch(...two);
    body.send(eventText("DELETED", service({ name: "a", ports: [] }), "11"));
    await stage.settle();
    assert.deepEqual(stage.told.take(), ["-services default/a"]);
    assert.deepEqual(stage.told.takeRefusals(), []);
  });

  it("is nothing after it is stopped, not even objects that had arrived", async (test) => {
    const stage = new Stage(test);
    const body = await stage.toWatch();
    stage.told.onService = () => stage.abort.abort();
    body.send(eventText("ADDED", two[0] as ApiObject, "11"));
    await stage.settle();
    const events: string[] = [];
    stage.told.onService = (_, current) => void events.push(current?.name ?? "-");
    body.send(eventText("ADDED", two[1] as ApiObject, "12"));
    await stage.run;
    assert.deepEqual(events, []);
  });

  it("stops within one chunk of a list", async (test) => {
    const stage = new Stage(test);
    await stage.settle();
    stage.told.onService = (_, current) => {
      names.push(current?.name ?? "-");
      stage.abort.abort();
    };
    const names: string[] = [];
    stage.connection.latest.answer().send(listText("10", two));
    await stage.run;
    assert.deepEqual(names, ["default/a"]);
    assert.deepEqual(stage.told.take(), []);
  });

  it("stops within one chunk of a watch", async (test) => {
    const stage = new Stage(test);
    const body = await stage.toWatch();
    const names: string[] = [];
    stage.told.onService = (_, current) => {
      names.push(current?.name ?? "-");
      stage.abort.abort();
    };
    body.send(two.map((object, index) => eventText("ADDED", object, `1${index}`)).join(""));
    await stage.run;
    assert.deepEqual(names, ["default/a"]);
  });
});

describe("what a reflector logs", () => {
  it("is the first failure, then each doubling, and the end of an outage", async (test) => {
    const stage = new Stage(test);
    const loud: number[] = [];
    let printed = 0;
    for (let failure = 1; failure <= 16; failure += 1) {
      await stage.fail();
      if (stage.lines.length > printed) loud.push(failure);
      printed = stage.lines.length;
      await stage.untilNextRequest();
    }
    assert.deepEqual(loud, [1, 2, 4, 8, 16]);
    stage.connection.latest.answer();
    await stage.settle();
    assert.deepEqual(stage.lines.slice(printed), ["info API server is reachable again"]);
  });

  it("is nothing for an expired version or silence, which are normal", async (test) => {
    const stage = new Stage(test);
    const body = await stage.toWatch();
    body.send('{"type":"ERROR","object":{"code":410}}\n');
    await stage.untilNextRequest();
    await stage.clock.advance(61_000);
    assert.equal(stage.failures("idle-timeout"), 1);
    assert.deepEqual(stage.lines, []);
  });
});

/** API server answers: the first is from before 1.31, the second from resources with their own fields. */
const unknownSelectors = [
  '"spec.clusterIP" is not a known field selector: only "metadata.name", "metadata.namespace"',
  "field label not supported: spec.clusterIP",
];

describe("an API server that does not know the field selector", () => {
  const badRequest = (message: string): string =>
    JSON.stringify({ kind: "Status", status: "Failure", message, reason: "BadRequest", code: 400 });
  const refuse = async (stage: Stage, message: string): Promise<void> => {
    await stage.settle();
    const body = stage.connection.latest.answer(400);
    body.send(badRequest(message));
    body.end();
    await stage.settle();
  };
  const ours = { labelSelector: "!service.kubernetes.io/service-proxy-name" };

  for (const message of unknownSelectors) {
    it(`is from then on queried without it, starting immediately: ${message}`, async (test) => {
      const stage = new Stage(test);
      await refuse(stage, message);
      assert.equal(stage.requestCount, 2);
      assert.deepEqual({ ...stage.query }, { ...ours, limit: "500", resourceVersion: "0" });
      const headless = service({ name: "headless", clusterIps: ["None"] });
      const body = await stage.toWatch(service(), headless);
      assert.deepEqual([...stage.told.services.keys()], ["default/web"]);
      assert.equal(stage.query["watch"], "true");
      assert.equal(stage.query["fieldSelector"], undefined);
      body.send(eventText("MODIFIED", headless, "11") + eventText("BOOKMARK", service(), "12"));
      body.end();
      await stage.settle();
      assert.deepEqual(stage.told.take(), []);
      assert.equal(stage.query["resourceVersion"], "12");
      assert.deepEqual(stage.lines, [
        "info API server does not support a selector, filtering locally",
      ]);
    });
  }

  it("is watched without it if only the watch is rejected, from the same version", async (test) => {
    const stage = new Stage(test);
    const body = await stage.toWatch();
    body.end();
    await stage.untilNextRequest();
    await refuse(stage, unknownSelectors[0] as string);
    assert.equal(stage.query["resourceVersion"], "10");
    assert.equal(stage.query["fieldSelector"], undefined);
  });

  it("receives the same request again after a pause if it answers 400 for a different reason", async (test) => {
    const stage = new Stage(test);
    await refuse(stage, "limit must be positive");
    assert.equal(stage.requestCount, 1);
    assert.ok((await stage.untilNextRequest()) >= 800);
    assert.equal(stage.query["fieldSelector"], "spec.clusterIP!=None");
    assert.deepEqual(stage.lines, ["warn Cannot read from the API server, retrying"]);
  });

  it("receives the request again after a pause if it rejects the field selector a second time", async (test) => {
    const stage = new Stage(test);
    await refuse(stage, unknownSelectors[0] as string);
    await refuse(stage, unknownSelectors[0] as string);
    assert.equal(stage.requestCount, 2);
    assert.ok((await stage.untilNextRequest()) >= 800);
  });

  it("yields no headless Services, like one that knows the selector", async (test) => {
    const stage = new Stage(test);
    await stage.toWatch(service({ name: "headless", clusterIps: ["None"] }));
    assert.deepEqual([...stage.told.services.keys()], []);
  });
});
