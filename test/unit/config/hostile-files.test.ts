import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ConfigError } from "../../../src/config/config-error.ts";
import { allFields } from "../../../src/config/fields.ts";
import fc from "../../support/fast-check.ts";
import { load } from "./loading.ts";

const head = { apiVersion: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration" };

/** Loads a file. The result must be a configuration or a one-line ConfigError. */
function tryToLoad(text: string): void {
  try {
    load({}, text);
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    assert.doesNotMatch(error.message, /\n/);
  }
}

describe("any file content", () => {
  it("as text, yields a configuration or a ConfigError", () => {
    fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 200 }), tryToLoad));
  });

  it("as the value of a field, yields a configuration or a ConfigError", () => {
    const path = fc.constantFrom(...allFields.map((field) => field.path));
    fc.assert(
      fc.property(path, fc.jsonValue(), (fieldPath, value) => {
        const nested = fieldPath
          .split(".")
          .reduceRight<unknown>((inner, key) => ({ [key]: inner }), value);
        tryToLoad(JSON.stringify({ ...head, ...(nested as object) }));
      }),
      { numRuns: 1_000, examples: [["logging.vmodule", { toString: false }]] },
    );
  });

  it("as sections, yields a configuration or a ConfigError", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (ipvs, own) =>
        tryToLoad(JSON.stringify({ ...head, ipvs, kubeIpvs: own, __proto__: ipvs })),
      ),
    );
  });
});
