import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type AnswerDeadline,
  answerDeadline,
  longestSilenceMs,
} from "../../../../src/daemon/process/answer-deadline.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

const cluster = { objectsFrom: { kind: "cluster" } } as const;

/**
 * Waits for twice the time limit, and calls `during` once a second. Returns the error, or undefined if there is none.
 */
async function said(
  config: Parameters<typeof answerDeadline>[0],
  during: (deadline: AnswerDeadline, second: number) => void,
): Promise<string | undefined> {
  const clock = new FakeClock();
  const deadline = answerDeadline(config, clock);
  let message: string | undefined;
  deadline.expired.catch((error: Error) => {
    message = error.message;
  });
  for (let second = 0; second < (2 * longestSilenceMs) / 1000; second += 1) {
    during(deadline, second);
    await clock.advance(1_000);
  }
  deadline.stop();
  return message;
}

const host = "10.0.0.1:6443";
const answered =
  (...codes: readonly string[]) =>
  ({ observer }: AnswerDeadline, second: number): void => {
    const code = codes[Math.min(second, codes.length - 1)];
    if (code !== undefined) observer.apiRequestAnswered("GET", host, code);
  };

describe("a command that queries an API server once gives up", () => {
  it("if no request is answered", async () => {
    const message = await said(cluster, () => {});
    assert.match(message ?? "", /^The API server did not answer for 20 s; check --config/);
  });

  it("if none can be reached", async () => {
    const message = await said(cluster, answered("<error>"));
    assert.match(
      message ?? "",
      /^API server 10\.0\.0\.1:6443 did not answer for 20 s; check --conf/,
    );
  });

  it("if the account has no permission", async () => {
    const message = await said(cluster, answered("403"));
    assert.match(message ?? "", /kept answering 403 for 20 s; check the account's permissions/);
    assert.match(
      (await said(cluster, answered("401"))) ?? "",
      /401 for 20 s; check the credentials/,
    );
  });

  it("not if the API server answers in the end, however long the lists take", async () => {
    assert.equal(await said(cluster, answered("<error>", "503", "200")), undefined);
    const once = ({ observer }: AnswerDeadline, second: number): void => {
      if (second === 0) observer.apiRequestAnswered("GET", host, "200");
    };
    assert.equal(await said(cluster, once), undefined);
  });

  it("not if there is no API server to query", async () => {
    const manifests = { objectsFrom: { kind: "manifests", folder: "/services" } } as const;
    assert.equal(await said(manifests, () => {}), undefined);
  });
});
