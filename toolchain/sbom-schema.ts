/** Validates documents with CycloneDX's own JSON schemas. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv } from "ajv";

const folder: string = join(
  import.meta.dirname,
  "../node_modules/@cyclonedx/cyclonedx-library/res/schema",
);

/** Returns the problems of a version 1.5 bill of materials. Empty if it is valid. */
export function schemaProblems(bom: object): readonly string[] {
  const ajv = new Ajv({ strict: false, validateFormats: false });
  for (const name of ["spdx", "jsf-0.82"]) ajv.addSchema(schema(name));
  const validate = ajv.compile(schema("bom-1.5"));
  if (validate(bom)) return [];
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}

/** Schemas refer to each other by file name. */
function schema(name: string): object {
  const file = `${name}.SNAPSHOT.schema.json`;
  const object = JSON.parse(readFileSync(join(folder, file), "utf8")) as object;
  return { ...object, $id: `http://cyclonedx.org/schema/${file}` };
}
