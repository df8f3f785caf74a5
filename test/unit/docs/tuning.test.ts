/** Each example of docs/tuning.md and its pages gives the virtual servers that it shows, and no annotation of it is ignored. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parseAllDocuments } from "yaml";
import { annotationReasons } from "../../../src/model/tuning.ts";
import { TunedNode } from "../../support/tuned-node.ts";

const docs = join(import.meta.dirname, "../../../docs");
const page = globSync(["tuning.md", "tuning/*.md"], { cwd: docs })
  .map((path) => readFileSync(join(docs, path), "utf8"))
  .join("\n");

interface Example {
  readonly title: string;
  readonly objects: readonly unknown[];
  readonly servers: readonly string[];
}

const examples: readonly Example[] = page.split(/^## /m).flatMap((section) => {
  const [, yaml] = /^```yaml\n(.*?)^```$/ms.exec(section) ?? [];
  const [, servers = ""] = /^```text\n(.*?)^```$/ms.exec(section) ?? [];
  if (yaml === undefined) return [];
  const objects = parseAllDocuments(yaml).map((document): unknown => document.toJS());
  const title = section.split("\n")[0] ?? "";
  return [{ title, objects: objects.map(inNamespace), servers: servers.split("\n").slice(0, -1) }];
});

function inNamespace(object: unknown): unknown {
  const { kind, metadata, ...rest } = object as { kind: string; metadata: object };
  return {
    kind,
    metadata: kind === "Node" ? metadata : { namespace: "default", ...metadata },
    ...rest,
  };
}

describe("docs/tuning.md", () => {
  for (const { title, objects, servers } of examples) {
    it(`shows what becomes of its example: ${title}`, async () => {
      const node = new TunedNode();
      await node.start(objects);
      assert.deepEqual(node.servers, servers);
      assert.deepEqual(node.warnings, []);
      await node.stop();
    });
  }

  it("has an example for each annotation that it lists, and lists each that an example has", () => {
    const listed = [...page.matchAll(/^\| \[`(kube-ipvs\.io\/[\w-]+)`\]/gm)].map(
      ([, name]) => name,
    );
    const used = [...page.matchAll(/^ {4}(kube-ipvs\.io\/[\w-]+): /gm)].map(([, name]) => name);
    assert.deepEqual([...new Set(used)].toSorted(), listed.toSorted());
  });

  it("explains each reason for which an annotation is ignored", () => {
    for (const reason of annotationReasons)
      assert.match(page, new RegExp(`^\\| \`${reason}\` \\|`, "m"));
  });
});
