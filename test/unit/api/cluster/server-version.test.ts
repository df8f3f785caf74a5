import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { followServerVersion } from "../../../../src/api/cluster/server-version.ts";
import type { ServerVersion } from "../../../../src/api/source.ts";
import { silentLogger } from "../../../../src/base/log.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { ScriptedConnection } from "./scripted-connection.ts";

/** A running follower. The test controls the server side and the clock. */
class Stage {
  readonly clock = new FakeClock();
  readonly connection = new ScriptedConnection();
  readonly versions: ServerVersion[] = [];
  readonly abort = new AbortController();
  readonly done: Promise<void>;

  constructor(test: TestContext) {
    const { clock, connection } = this;
    const note = (version: ServerVersion): void => void this.versions.push(version);
    const dependencies = { clock, connection, log: silentLogger };
    this.done = followServerVersion(dependencies, note, this.abort.signal);
    test.after(() => this.abort.abort());
  }

  async answer(text: string, status = 200): Promise<void> {
    await this.clock.advance(0);
    const body = this.connection.latest.answer(status);
    body.send(text);
    body.end();
    await this.clock.advance(0);
  }
}

const versionText = (gitVersion: string): string =>
  JSON.stringify({ major: "1", minor: "30+", gitVersion, goVersion: "go1.22.5" });

describe("the API server's version", () => {
  it("is reported once, and again when it changes", async (test) => {
    const stage = new Stage(test);
    await stage.answer(versionText("v1.30.4+k3s1"));
    assert.equal(stage.connection.latest.path, "/version");
    assert.deepEqual(stage.versions, [{ major: "1", minor: "30+", gitVersion: "v1.30.4+k3s1" }]);
    await stage.clock.advance(600_000);
    await stage.answer(versionText("v1.30.4+k3s1"));
    await stage.clock.advance(600_000);
    await stage.answer(versionText("v1.31.0"));
    assert.deepEqual(
      stage.versions.map(({ gitVersion }) => gitVersion),
      ["v1.30.4+k3s1", "v1.31.0"],
    );
    assert.equal(stage.connection.requests.length, 3);
  });

  const answers: readonly (readonly [name: string, text: string, status?: number])[] = [
    ["is forbidden", "{}", 403],
    ["is no JSON", "<html>"],
    ["lacks a field", '{"major":"1","minor":"30"}'],
    ["is hostile", JSON.stringify({ major: "1", minor: "30", gitVersion: 'v1"} 1\nx 1' })],
    ["is endless", " ".repeat(70_000)],
  ];
  for (const [name, text, status] of answers) {
    it(`is requested again after a minute if the response ${name}`, async (test) => {
      const stage = new Stage(test);
      await stage.answer(text, status);
      assert.deepEqual(stage.versions, []);
      assert.equal(stage.connection.requests.length, 1);
      await stage.clock.advance(60_000);
      await stage.answer(versionText("v1.30.4"));
      assert.equal(stage.versions.length, 1);
    });
  }

  it("is not requested after it is stopped", async (test) => {
    const stage = new Stage(test);
    await stage.answer(versionText("v1.30.4"));
    stage.abort.abort();
    await stage.done;
    assert.equal(stage.clock.pendingTimers, 0);
  });
});
