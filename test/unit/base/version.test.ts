import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { it } from "node:test";
import { parseJson } from "../../../src/base/parse-json.ts";
import { version } from "../../../src/base/version.ts";

it("the version is that in package.json", () => {
  const path = new URL("../../../package.json", import.meta.url);
  const manifest = parseJson(readFileSync(path, "utf8")) as { readonly version: string };
  assert.equal(version, manifest.version);
});
