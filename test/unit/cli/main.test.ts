import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const main = fileURLToPath(new URL("../../../src/main.ts", import.meta.url));

interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs the program itself. */
function program(...args: string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [main, ...args], (_, out, err) =>
      resolve({ code: child.exitCode ?? -1, out, err }),
    );
  });
}

describe("the process", () => {
  it("ends with 0 after --version", async () => {
    const { code, out, err } = await program("--version");
    assert.deepEqual([code, err], [0, ""]);
    assert.match(out, /^Kubernetes v/);
  });

  it("writes all of --help into a pipe", async () => {
    const { code, out } = await program("--help");
    assert.equal(code, 0);
    assert.match(out, /--proxy-port-range .*\n$/);
  });

  it("ends with 1 and one line on stderr after a mistake", async () => {
    const { code, out, err } = await program("--proxy-mode", "iptables", "--v=1");
    assert.deepEqual([code, out], [1, ""]);
    assert.match(err, /^Error: Invalid configuration: --proxy-mode: [^\n]*\n$/);
  });
});
