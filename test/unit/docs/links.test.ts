/** Tests that the targets of all links between documents and to files exist. */
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";

const project = join(import.meta.dirname, "../../..");
const documents = [
  ...globSync("*.md", { cwd: project }),
  ...globSync("{docs,deploy,src,test}/**/*.md", { cwd: project }),
];

/** The anchor of a heading, as code hosting sites create it. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}

function anchorsIn(path: string): readonly string[] {
  return [...readFileSync(path, "utf8").matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    anchorOf(heading),
  );
}

/** Links whose targets do not exist. */
function brokenLinks(path: string): readonly string[] {
  const text = readFileSync(join(project, path), "utf8");
  const targets = [...text.matchAll(/\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"/g)].map(
    ([, target, picture]) => target ?? picture ?? "",
  );
  return targets
    .filter((target) => !/^[a-z]+:/.test(target))
    .filter((target) => {
      const [file = "", anchor] = target.split("#");
      const full = file === "" ? join(project, path) : join(project, dirname(path), file);
      if (!existsSync(full)) return true;
      return anchor !== undefined && full.endsWith(".md") && !anchorsIn(full).includes(anchor);
    });
}

describe("links in documents", () => {
  it("exist", () => {
    assert.ok(documents.includes("docs/install.md") && documents.length > 20);
  });

  for (const path of documents) {
    it(`have existing targets: ${path}`, () => {
      assert.deepEqual(brokenLinks(path), []);
    });
  }
});
