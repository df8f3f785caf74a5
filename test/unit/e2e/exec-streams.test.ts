import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ExecStreams, stream } from "../../../src/e2e/cluster/exec-streams.ts";

function streamsOf(...messages: readonly (readonly [index: number, text: string])[]): ExecStreams {
  const streams = new ExecStreams();
  for (const [index, text] of messages) {
    streams.add(Buffer.concat([Buffer.from([index]), Buffer.from(text)]));
  }
  return streams;
}

const nonZero = JSON.stringify({
  status: "Failure",
  reason: "NonZeroExitCode",
  details: { causes: [{ reason: "ExitCode", message: "2" }] },
});

describe("the streams of a command in a pod", () => {
  it("are put together, each by itself, also where a character is cut in two", () => {
    const streams = streamsOf([stream.out, "a"], [stream.err, "e"]);
    const [head, tail] = [Buffer.from("é").subarray(0, 1), Buffer.from("é").subarray(1)];
    streams.add(Buffer.concat([Buffer.from([stream.out]), head]));
    streams.add(Buffer.concat([Buffer.from([stream.out]), tail]));
    streams.add(Buffer.concat([Buffer.from([stream.status]), Buffer.from('{"status":"Success"}')]));
    assert.deepEqual(streams.result, { exitCode: 0, out: "aé", err: "e" });
  });

  it("end with the command's exit code", () => {
    assert.equal(streamsOf([stream.status, nonZero]).result?.exitCode, 2);
  });

  it("have no result before the status came", () => {
    assert.equal(streamsOf([stream.out, "text"]).result, undefined);
  });

  it("say why a command could not be run", () => {
    const failure = { status: "Failure", message: "container not found" };
    const streams = streamsOf([stream.status, JSON.stringify(failure)]);
    assert.throws(() => streams.result, /^Error: container not found$/);
  });
});
