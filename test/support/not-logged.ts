import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");

/**
 * Asserts that the program logged none of these events. Also fails if an event is in no source file; otherwise, the
 * assertion would always pass after a rename.
 */
export function assertNotLogged(output: string, ...events: readonly string[]): void {
  for (const event of events) {
    assert.ok(isInSource(event), `no source file logs "${event}"`);
    assert.ok(!output.includes(`"${event}"`), `logged "${event}"\n${output}`);
  }
}

function isInSource(event: string): boolean {
  return globSync("src/**/*.ts", { cwd: root }).some((path) =>
    readFileSync(join(root, path), "utf8").includes(`"${event}"`),
  );
}
