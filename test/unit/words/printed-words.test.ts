/** Log events, errors, help and metrics use the words of Kubernetes and Linux, none of our own. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { bannedWords } from "./banned-words.ts";
import { stringLiterals } from "./string-literals.ts";

const project: string = join(import.meta.dirname, "../../..");

/** Imports are not printed. */
const importPath = /^\.{1,2}\//;

const sources: readonly string[] = globSync("{src,native-shim}/**/*.{ts,c,h}", {
  cwd: project,
}).sort();

describe("a printed string", () => {
  for (const [pattern, instead] of bannedWords) {
    it(`without ${pattern.source}: ${instead}`, () => {
      const found = sources.flatMap((path) =>
        stringLiterals(readFileSync(join(project, path), "utf8"))
          .filter(({ text }) => pattern.test(text) && !importPath.test(text))
          .map(({ line, text }) => `${path}:${line}: ${text}`),
      );
      assert.deepEqual(found, []);
    });
  }

  it("is found in the sources", () => {
    assert.ok(sources.length > 150);
    const source = 'const a = /"/; // "no"\nlog.info("Seen", { by: `x y` }); /* "no" */';
    assert.deepEqual(stringLiterals(source), [
      { line: 2, text: "Seen" },
      { line: 2, text: "x y" },
    ]);
  });
});
