/** The title of a test is read where it fails, and in documents: it has the words of Kubernetes and Linux, too. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { bannedWords } from "./banned-words.ts";

const project: string = join(import.meta.dirname, "../../..");
const title = /\b(?:it|describe|test)(?:\.\w+)?\(\s*(?:"((?:\\.|[^"\\])*)"|`([^`]*)`)/g;

const files: readonly string[] = globSync("test/**/*.test.ts", { cwd: project })
  .filter((path) => !path.startsWith("test/unit/words/"))
  .sort();

const titles = files.flatMap((path) =>
  [...readFileSync(join(project, path), "utf8").matchAll(title)].map(
    ([, plain, template]) => [path, plain ?? template ?? ""] as const,
  ),
);

describe("the title of a test", () => {
  for (const [pattern, instead] of bannedWords) {
    it(`is without ${pattern.source}: ${instead}`, () => {
      assert.deepEqual(
        titles.filter(([, text]) => pattern.test(text)),
        [],
      );
    });
  }

  it("is found", () => {
    assert.ok(titles.length > 2000, `${titles.length} titles`);
  });
});
