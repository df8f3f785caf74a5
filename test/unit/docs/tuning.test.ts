/**
 * Tests that each example in docs/tuning.md and its pages creates the virtual servers that it shows, and that none of
 * its annotations is ignored.
 */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parseAllDocuments } from "yaml";
import { annotationReasons } from "../../../src/model/tuning.ts";
import { TunedNode } from "../../support/tuned-node.ts";

const docs = join(import.meta.dirname, "../../../docs");
const page = globSync(["tuning.md", "tuning/*.md", "tunnel-forwarding.md"], { cwd: docs })
  .map((path) => readFileSync(join(docs, path), "utf8"))
  .join("\n");

interface Example {
  readonly title: string;
  readonly objects: readonly KubernetesObject[];
  /** Undefined if the example does not change a virtual server. */
  readonly servers?: readonly string[];
}

interface KubernetesObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

function objectsIn(text: string): readonly KubernetesObject[] | undefined {
  const [, yaml] = /^```yaml\n(.*?)^```$/ms.exec(text) ?? [];
  if (yaml === undefined) return undefined;
  return parseAllDocuments(yaml).map((document) => inNamespace(document.toJS()));
}

/** The endpoints of all examples that do not define their own. */
const [endpoints] = objectsIn(readFileSync(join(docs, "tuning.md"), "utf8")) ?? [];

const examples: readonly Example[] = page.split(/^## /m).flatMap((section) => {
  const own = objectsIn(section) ?? [];
  if (!own.some(({ kind }) => kind === "Service")) return [];
  const [, servers] = /^```text\n(.*?)^```$/ms.exec(section) ?? [];
  const common = endpoints === undefined || own.some(isNamedAs(endpoints)) ? [] : [endpoints];
  const title = section.split("\n")[0] ?? "";
  const objects = [...own, ...common];
  return [{ title, objects, ...(servers === undefined ? {} : { servers: linesOf(servers) }) }];
});

function isNamedAs(other: KubernetesObject): (object: KubernetesObject) => boolean {
  return ({ kind, metadata }) => kind === other.kind && metadata.name === other.metadata.name;
}

function linesOf(text: string): readonly string[] {
  return text.split("\n").slice(0, -1);
}

function inNamespace({ kind, metadata, ...rest }: KubernetesObject): KubernetesObject {
  return {
    kind,
    metadata: kind === "Node" ? metadata : { namespace: "default", ...metadata },
    ...rest,
  };
}

/** The virtual server of the examples' Service, without annotations. */
const untuned = [
  "-A -t 10.96.0.10:80 -s rr",
  "-a -t 10.96.0.10:80 -r 10.244.1.10:8080 -m -w 1",
  "-a -t 10.96.0.10:80 -r 10.244.2.10:8080 -m -w 1",
];

describe("docs/tuning.md", () => {
  it("has examples", () => assert.equal(examples.length, 2));

  for (const { title, objects, servers } of examples) {
    it(`shows its example's result: ${title}`, async () => {
      const node = new TunedNode();
      await node.start(objects);
      assert.deepEqual(node.servers, servers ?? untuned);
      assert.deepEqual(node.warnings, []);
      await node.stop();
    });
  }

  it("has an example for each listed annotation, and lists each annotation of an example", () => {
    const listed = [...page.matchAll(/^\| \[`(kube-ipvs\.io\/[\w-]+)`\]/gm)].map(
      ([, name]) => name,
    );
    const used = [...page.matchAll(/^ {4}(kube-ipvs\.io\/[\w-]+): /gm)].map(([, name]) => name);
    assert.deepEqual([...new Set(used)].toSorted(), listed.toSorted());
  });

  it("says for each kind of weight when to use it and when not to", () => {
    const weights = readFileSync(join(docs, "tuning/weights.md"), "utf8");
    const [, ...sections] = weights.split(/^## /m);
    assert.equal(sections.length, 4);
    for (const section of sections)
      assert.match(section, /\*\*Use this\*\*.*\*\*Do not use this\*\*/s, section);
  });

  it("explains each reason for an ignored annotation", () => {
    for (const reason of annotationReasons)
      assert.match(page, new RegExp(`^\\| \`${reason}\` \\|`, "m"));
  });
});
