/**
 * Tests the things that a code hosting site shows besides documents: pictures in both themes, issue templates, and
 * supported and released versions.
 */
import assert from "node:assert/strict";
import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { version } from "../../../src/base/version.ts";

const project = join(import.meta.dirname, "../../..");
const read = (path: string): string => readFileSync(join(project, path), "utf8");
const documents = globSync(["*.md", "{docs,deploy,src}/**/*.md"], { cwd: project }).sort();

interface Picture {
  readonly document: string;
  /** Path from the project's root. */
  readonly path: string;
  readonly alt: string;
}

const pictures: readonly Picture[] = documents.flatMap((document) => {
  const text = read(document);
  const markdown = [...text.matchAll(/!\[([^\]]*)\]\(([^)]+)\)/g)].map(([, alt, path]) => ({
    alt,
    path,
  }));
  const html = [...text.matchAll(/<img src="([^"]+)" alt="([^"]*)"/g)].map(([, path, alt]) => ({
    alt,
    path,
  }));
  return [...markdown, ...html].map(({ alt = "", path = "" }) => ({
    document,
    alt,
    path: join(dirname(document), path),
  }));
});

/** Whether the picture adapts to the theme, or its document has a variant for the dark theme. */
function hasDarkForm({ document, path }: Picture): boolean {
  const isAdapting = read(path).includes("prefers-color-scheme: dark");
  const dark = path.replace(/-light\.svg$/, "-dark.svg");
  const isOffered = dark !== path && existsSync(join(project, dark));
  return isAdapting || (isOffered && read(document).includes("prefers-color-scheme: dark"));
}

describe("a picture", () => {
  for (const picture of pictures) {
    it(`has a description, and variants for light and dark: ${picture.document}, ${picture.path}`, () => {
      assert.ok(picture.alt.length > 20, "no alternative text");
      assert.ok(hasDarkForm(picture), "light only");
    });
  }

  it("exists", () => assert.ok(pictures.length >= 6, `${pictures.length} pictures`));
});

describe("a heading", () => {
  for (const document of documents) {
    it(`can be linked, because its text is unique in its document: ${document}`, () => {
      const text = read(document).replaceAll(/^```.*?^```$/gms, "");
      const headings = [...text.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading);
      assert.deepEqual(headings, [...new Set(headings)]);
    });
  }
});

describe("the index of documents", () => {
  const index = read("docs/README.md");

  for (const path of [
    ...readdirSync(join(project, "docs")),
    "reports/",
    "releases/",
    "decisions/",
  ]) {
    if (!/\.md$|\/$/.test(path) || path === "README.md") continue;
    it(`links ${path}`, () => assert.ok(index.includes(`](${path}`)));
  }
});

describe("a release", () => {
  const minor = version.split(".").slice(0, 2).join(".");

  it("has notes, a section of the changelog, and security fixes", () => {
    assert.match(read(`docs/releases/${version}.md`), new RegExp(`^# kube-ipvs ${version}`));
    assert.match(read("CHANGELOG.md"), new RegExp(`^## ${version} - \\d{4}-\\d\\d-\\d\\d$`, "m"));
    assert.ok(read("SECURITY.md").includes(`| ${minor} | yes |`));
  });

  it("has a changelog with entries only, and each heading once per version", () => {
    const allowed = ["Breaking", "Added", "Changed", "Fixed", "Security"];
    const [, ...versions] = read("CHANGELOG.md").split(/^## /m);
    for (const text of versions) {
      const [title = "", ...lines] = text.split("\n").filter((line) => line !== "");
      const headings = lines.filter((line) => line.startsWith("#"));
      const found = allowed.filter((heading) => headings.includes(`### ${heading}`));
      assert.deepEqual(
        headings.map((heading) => heading.slice(4)),
        found,
        title,
      );
      const others = lines.filter((line) => !/^(?:### |- | {2})\S/.test(line));
      assert.deepEqual(others, [], title);
    }
  });

  it("has a bug report template that requests the output of commands", () => {
    const template = read(".github/ISSUE_TEMPLATE/bug.md");
    for (const command of ["kube-ipvs sysdump --redact", "kube-ipvs explain"])
      assert.ok(template.includes(command), command);
  });
});

describe("ARCHITECTURE.md", () => {
  const text = read("ARCHITECTURE.md");

  for (const room of readdirSync(join(project, "src"), { withFileTypes: true })) {
    if (!room.isDirectory()) continue;
    it(`has a section for src/${room.name}/, which has a README`, () => {
      assert.ok(text.includes(`\`src/${room.name}/\``));
      assert.ok(existsSync(join(project, "src", room.name, "README.md")));
    });
  }

  it("names folders that exist", () => {
    const folders = [...text.matchAll(/`((?:src|native-shim|deploy|toolchain|test)\/[\w/-]*)`/g)];
    assert.ok(folders.length > 25);
    const missing = folders.filter(([, path = ""]) => !existsSync(join(project, path)));
    assert.deepEqual(missing, []);
  });
});
