/** Tests that each source folder's README names every file and folder there, and nothing that does not exist. */
import assert from "node:assert/strict";
import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";

const project = join(import.meta.dirname, "../../..");
const readmes = globSync("src/**/README.md", { cwd: project }).sort();

describe("the README of a source folder", () => {
  assert.ok(readmes.length > 0);
  for (const readme of readmes) {
    const folder = join(project, dirname(readme));
    const text = readFileSync(join(project, readme), "utf8");
    const named = new Set(text.match(/(?<=`)[\w./-]+(?=`)/g));

    it(`names everything in its folder: ${dirname(readme)}`, () => {
      const present = readdirSync(folder, { withFileTypes: true })
        .filter(({ name }) => name !== "README.md")
        .map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name));
      assert.deepEqual(
        present.filter((name) => !named.has(name)),
        [],
      );
    });

    it(`names only existing files and folders: ${dirname(readme)}`, () => {
      const rows = text.split("\n").filter((line) => line.startsWith("| `"));
      const listed = rows.flatMap(
        (row) => row.split(" | ")[0]?.match(/(?<=`)[\w./-]+(?=`)/g) ?? [],
      );
      assert.deepEqual(
        listed.filter((name) => /\.ts$|\/$/.test(name) && !existsSync(join(folder, name))),
        [],
      );
    });
  }
});
