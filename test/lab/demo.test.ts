/** The demo holds, and it can fail: what is taken away behind the daemon's back turns it red. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, it } from "node:test";

const story = join(import.meta.dirname, "../demo/story.ts");

interface Ending {
  readonly status: number;
  readonly output: string;
}

function runStory(sabotage?: string): Promise<Ending> {
  const environment = sabotage === undefined ? {} : { DEMO_SABOTAGE: sabotage };
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [story],
      { env: { ...process.env, ...environment }, timeout: 150_000, maxBuffer: 2 ** 24 },
      (error, stdout, stderr) => {
        const status = error === null ? 0 : Number(error.code ?? 1);
        resolve({ status, output: stdout + stderr });
      },
    );
  });
}

const sabotages = [
  { takenAway: "masquerade-rule", red: /NO every pod saw the node/ },
  { takenAway: "real-server", red: /NO answers are spread evenly/ },
  { takenAway: "set-entry", red: /NO 300 requests, [1-9]\d* failed/ },
] as const;

describe("the demo", () => {
  it("is green, and leaves no namespace behind", async () => {
    const { status, output } = await runStory();
    assert.equal(status, 0, output);
    assert.match(output, /The demo holds/);
    assert.doesNotMatch(output, /^ +NO /m);
  });

  for (const { takenAway, red } of sabotages) {
    it(`is red without the ${takenAway.replace("-", " ")}`, async () => {
      const { status, output } = await runStory(takenAway);
      assert.equal(status, 1, output);
      assert.match(output, red);
    });
  }
});
