/**
 * The guides: the pages under docs/ that the first table in docs/README.md links, and the pages in a folder of the same
 * name.
 */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

const docs: string = join(import.meta.dirname, "../../../docs");

export interface Guide {
  /** Path, relative to `docs/`. */
  readonly path: string;
  readonly text: string;
}

export function readGuides(): readonly Guide[] {
  const [, table = ""] =
    /^## Guides\n(.*?)^## /ms.exec(readFileSync(join(docs, "README.md"), "utf8")) ?? [];
  const linked = [...table.matchAll(/\]\(([\w-]+)\.md\)/g)].map(([, name = ""]) => name);
  const paths = globSync(
    linked.flatMap((name) => [`${name}.md`, `${name}/*.md`]),
    { cwd: docs },
  );
  return paths.toSorted().map((path) => ({ path, text: readFileSync(join(docs, path), "utf8") }));
}

/** A page's shell blocks. */
export function shellBlocksOf(text: string): readonly string[] {
  return [...text.matchAll(/^( *)```sh\n(.*?)^\1```$/gms)].map(([, indent = "", block = ""]) =>
    block.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
  );
}
