/** Files that people write: configuration and manifests. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { decodeObject } from "../../../src/api/decode/decode-object.ts";
import { TextPool } from "../../../src/api/decode/flat-text.ts";
import { withDefaults } from "../../../src/api/manifest/defaults.ts";
import { readDocuments } from "../../../src/api/manifest/documents.ts";
import { ConfigError } from "../../../src/config/config-error.ts";
import { allFields } from "../../../src/config/fields.ts";
import { loadConfig } from "../../../src/config/load-config.ts";
import { readCorpusTexts } from "../corpus.ts";
import { mutatedTexts, nastyValues } from "../mutations.ts";
import { type FuzzTarget, type Verdict, verdictOf } from "../target.ts";

const configPath = "/config.conf";
const head = {
  apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
  kind: "KubeProxyConfiguration",
  mode: "ipvs",
};

/** Loads a configuration. The result must be a configuration, or a ConfigError with a cause in each line. */
function loadText(text: string): Verdict {
  return verdictOf(
    () => {
      const context = { readFile: () => text, hostname: () => "node-1" };
      const { config } = loadConfig(new Map([["config", [configPath]]]), context);
      assert.ok(Object.isFrozen(config));
    },
    (error) => {
      if (!(error instanceof ConfigError)) return false;
      assert.doesNotMatch(error.message, /[\p{Cc}\p{Cf}\p{Cs}]/u);
      return true;
    },
  );
}

/** A value of any type for any setting. JSON is valid YAML, and faster to create. */
const settings = fc
  .array(fc.tuple(fc.constantFrom(...allFields.map(({ path }) => path)), nastyValues), {
    minLength: 1,
    maxLength: 4,
  })
  .map((pairs) => {
    const tree: Record<string, unknown> = { ...head };
    for (const [path, value] of pairs) place(tree, path.split("."), value);
    return JSON.stringify(tree);
  });

function place(tree: Record<string, unknown>, path: readonly string[], value: unknown): void {
  const [key = "", ...rest] = path;
  if (rest.length === 0) {
    tree[key] = value;
    return;
  }
  const inner = tree[key];
  const isTree = typeof inner === "object" && inner !== null && !Array.isArray(inner);
  const next = (isTree ? inner : {}) as Record<string, unknown>;
  tree[key] = next;
  place(next, rest, value);
}

function readManifest(text: string): Verdict {
  const content = readDocuments("a.yaml", text);
  if (content.kind === "problem") {
    assert.ok(content.problem.line >= 1 && content.problem.column >= 1);
    return "refused";
  }
  for (const { value } of content.values) {
    for (const kind of ["services", "endpointslices", "nodes"] as const) {
      decodeObject(kind, withDefaults(kind, value), { refuse() {}, texts: new TextPool() });
    }
  }
  return "taken";
}

const manifests = readCorpusTexts("manifests");
const configurations = readCorpusTexts("configuration");

export const targets: readonly FuzzTarget<string>[] = [
  {
    name: "manifests",
    isDecoder: false,
    kept: manifests,
    inputs: mutatedTexts(manifests),
    run: readManifest,
  },
  {
    name: "configuration",
    isDecoder: false,
    kept: configurations,
    run: loadText,
    inputs: fc.oneof(settings, mutatedTexts(configurations)),
  },
];
