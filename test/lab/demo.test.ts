/** Tests that the demo passes, and that it fails if part of the kernel state is removed. */
import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { tmpdir } from "node:os";
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
      { env: { ...process.env, ...environment }, timeout: 300_000, maxBuffer: 2 ** 24 },
      (error, stdout, stderr) => {
        const status = error === null ? 0 : Number(error.code ?? 1);
        resolve({ status, output: stdout + stderr });
      },
    );
  });
}

/** Namespaces and folders that a demo created. */
function leftBehind(): readonly string[] {
  const namespaces = execFileSync("ip", ["netns", "list"]).toString().split("\n");
  const folders = readdirSync(tmpdir()).filter((name) => name.startsWith("kube-ipvs-demo-"));
  return [...namespaces.filter((name) => name !== ""), ...folders];
}

const sabotages = [
  { takenAway: "masquerade-rule", red: /NO every pod saw the node/ },
  { takenAway: "real-server", red: /NO answers are spread evenly/ },
  { takenAway: "set-entry", red: /NO 300 requests, [1-9]\d* failed/ },
] as const;

describe("the demo", () => {
  it("passes, shows its progress, and leaves nothing behind", async () => {
    const { status, output } = await runStory();
    assert.equal(status, 0, output);
    assert.match(output, /The demo passed/);
    assert.doesNotMatch(output, /^ +NO /m);
    // At this point, the demo waits for 5 s and prints a dot every 2 s.
    assert.match(output, /keeps serving for 5 s, like a terminating pod\n {5}\.\./);
    assert.deepEqual(leftBehind(), []);
  });

  for (const { takenAway, red } of sabotages) {
    it(`fails without ${takenAway.replace("-", " ")}`, async () => {
      const { status, output } = await runStory(takenAway);
      assert.equal(status, 1, output);
      assert.match(output, red);
      assert.deepEqual(leftBehind(), []);
    });
  }
});
