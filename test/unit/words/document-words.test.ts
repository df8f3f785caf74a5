/** Guides and references use the words of Kubernetes and Linux, as what the program prints does. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { bannedWords } from "./banned-words.ts";

const project: string = join(import.meta.dirname, "../../..");

/** Written with the figures of a run, or about what once was. */
const isRecord = /\/(?:decisions|releases)\/|\/reports\/(?:benchmarks|packet-paths|kernels)\.md$/;

const documents: readonly string[] = globSync(["*.md", "docs/**/*.md", "deploy/**/*.md"], {
  cwd: project,
})
  .filter((path) => !isRecord.test(path))
  .sort();

/** Lines without what is quoted: code, link targets, titles of tests. */
function proseOf(path: string): readonly string[] {
  const text = readFileSync(join(project, path), "utf8")
    .replaceAll(/^```.*?^```$/gms, (block) => "\n".repeat(block.split("\n").length - 1))
    .replace(/^### Renamed\n.*?(?=^### )/ms, (part) => "\n".repeat(part.split("\n").length - 1));
  return text.split("\n").map((line) => line.replaceAll(/`[^`]*`|\]\([^)]*\)|"[^"]*"/g, ""));
}

describe("a document", () => {
  for (const path of documents) {
    it(`has plain words: ${path}`, () => {
      const found = proseOf(path).flatMap((line, index) =>
        bannedWords
          .filter(([pattern]) => pattern.test(line))
          .map(([pattern, instead]) => `${path}:${index + 1}: ${pattern.exec(line)}: ${instead}`),
      );
      assert.deepEqual(found, []);
    });
  }

  it("is found", () => {
    assert.ok(documents.length > 20);
  });
});
