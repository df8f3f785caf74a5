import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { type Access, RequestAuthorizer } from "../../../../src/api/cluster/request-authorizer.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { ScriptedConnection } from "./scripted-connection.ts";

let clock: FakeClock;
let connection: ScriptedConnection;
let log: RecordingLogger;
let authorizer: RequestAuthorizer;

beforeEach(() => {
  clock = new FakeClock();
  connection = new ScriptedConnection();
  log = new RecordingLogger();
  authorizer = new RequestAuthorizer({ connection, clock, log });
});

const user = { username: "prometheus", uid: "7", groups: ["g"], extra: { scope: ["a"] } };

function ask(token = "abc", path = "/metrics"): Promise<Access> {
  return authorizer.access({ path, verb: "get", token });
}

/** Answers the newest request with this status of a review. */
async function answer(status: object, code = 201): Promise<void> {
  await clock.advance(0);
  const body = connection.latest.answer(code);
  body.send(JSON.stringify({ status }));
  body.end();
  await clock.advance(0);
}

describe("access to a page", () => {
  it("is allowed if the API server accepts the token and allows its user to request the path", async () => {
    const access = ask();
    await answer({ authenticated: true, user });
    await answer({ allowed: true });
    assert.equal(await access, "allowed");
    const sent = connection.requests.map(({ path, write }) => ({
      path,
      spec: (JSON.parse(write?.body ?? "") as { readonly spec: object }).spec,
    }));
    assert.deepEqual(sent, [
      { path: "/apis/authentication.k8s.io/v1/tokenreviews", spec: { token: "abc" } },
      {
        path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        spec: {
          ...{ user: "prometheus", uid: "7", groups: ["g"], extra: { scope: ["a"] } },
          nonResourceAttributes: { path: "/metrics", verb: "get" },
        },
      },
    ]);
  });

  it("is refused for an unknown token, and for a user without the right", async () => {
    const unknown = ask("bad");
    await answer({ authenticated: false, error: "invalid" });
    assert.equal(await unknown, "unknown");
    const forbidden = ask();
    await answer({ authenticated: true, user });
    await answer({ allowed: false });
    assert.equal(await forbidden, "forbidden");
  });

  it("is reviewed again after ten seconds, and for each path", async () => {
    const first = ask();
    await answer({ authenticated: true, user });
    await answer({ allowed: true });
    assert.equal(await first, "allowed");
    assert.equal(await ask(), "allowed");
    assert.equal(connection.requests.length, 2);
    const other = ask("abc", "/configz");
    await answer({ authenticated: true, user });
    await answer({ allowed: false });
    assert.equal(await other, "forbidden");
    await clock.advance(10_000);
    const later = ask();
    await answer({ authenticated: false });
    assert.equal(await later, "unknown");
  });

  it("is unavailable without an answer, which is logged once and not remembered", async () => {
    for (let round = 0; round < 2; round += 1) {
      const access = ask();
      await clock.advance(0);
      connection.latest.refuse();
      assert.equal(await access, "unavailable");
    }
    const late = ask();
    await clock.advance(10_000);
    assert.equal(await late, "unavailable");
    assert.equal(connection.requests.length, 3);
    assert.equal(log.lines.length, 1);
  });

  it("is logged again if it fails after the API server has answered", async () => {
    const fail = async (): Promise<void> => {
      const access = ask();
      await clock.advance(0);
      connection.latest.refuse();
      assert.equal(await access, "unavailable");
    };
    await fail();
    const unknown = ask("bad");
    await answer({ authenticated: false });
    assert.equal(await unknown, "unknown");
    await fail();
    assert.equal(log.lines.length, 2);
  });

  it("names the role that is missing", async () => {
    const access = ask();
    await answer({}, 403);
    assert.equal(await access, "unavailable");
    assert.match(String(log.lines[0]?.keys?.["err"]), /system:auth-delegator/);
  });

  it("is reviewed one request at a time, and refused if too many are waiting", async () => {
    const all = Array.from({ length: 30 }, (_, index) => ask(`token-${index}`));
    await clock.advance(0);
    assert.equal(connection.requests.length, 1);
    for (let index = 0; index < 20; index += 1) await answer({ authenticated: false });
    const results = await Promise.all(all);
    assert.deepEqual(
      results.map((access) => access === "unavailable"),
      all.map((_, index) => index >= 20),
    );
    assert.equal(connection.requests.length, 20);
  });
});
