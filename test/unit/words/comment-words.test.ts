/** Who reads the sources meets the words of Kubernetes and Linux, too: comments have none of our own. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { bannedWords } from "./banned-words.ts";
import { commentLines } from "./comments.ts";

const project: string = join(import.meta.dirname, "../../..");
const sources: readonly string[] = globSync("{src,native-shim,test}/**/*.{ts,c,h}", {
  cwd: project,
})
  .filter((path) => !path.startsWith("test/unit/words/"))
  .sort();

describe("a comment", () => {
  for (const [pattern, instead] of bannedWords) {
    it(`without ${pattern.source}: ${instead}`, () => {
      const found = sources.flatMap((path) =>
        commentLines(readFileSync(join(project, path), "utf8"))
          .filter(({ text }) => pattern.test(text))
          .map(({ line, text }) => `${path}:${line}: ${text}`),
      );
      assert.deepEqual(found, []);
    });
  }

  it("is found, and no string taken for one", () => {
    assert.ok(sources.length > 150);
    const source = '/**\n * Say `told`.\n */\nconst a = "// no"; // yes\nconst b = /\\/\\*/;';
    assert.deepEqual(
      commentLines(source).filter(({ text }) => text !== ""),
      [
        { line: 2, text: "Say ." },
        { line: 4, text: "yes" },
      ],
    );
  });
});
