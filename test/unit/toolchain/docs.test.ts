import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { documents } from "../../../toolchain/docs/documents.ts";

const project = join(import.meta.dirname, "../../..");

describe("a generated document", () => {
  for (const [path, text] of Object.entries(documents)) {
    it(`equals its table: ${path} (make docs writes it)`, () => {
      assert.equal(readFileSync(join(project, path), "utf8"), text());
    });
  }
});
