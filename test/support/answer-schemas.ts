/** Validates the output of commands against the published JSON Schemas. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv, type ValidateFunction } from "ajv";
import { parseJson } from "../../src/base/parse-json.ts";

const folder: string = join(import.meta.dirname, "../../docs/schemas");

/** The published schemas allow fields from later versions. Here, every field must be described. */
const strictly = (name: string, value: unknown): unknown =>
  name !== "properties" && isObjectSchema(value)
    ? { additionalProperties: false, ...value }
    : value;

function isObjectSchema(value: unknown): value is object {
  return typeof value === "object" && value !== null && "properties" in value && "type" in value;
}

const validators = new Map<string, ValidateFunction>();

function validatorOf(name: string): ValidateFunction {
  const known = validators.get(name);
  if (known !== undefined) return known;
  const schema = parseJson(readFileSync(join(folder, `${name}.json`), "utf8"));
  const strict = JSON.parse(JSON.stringify(schema, strictly)) as object;
  const validator = new Ajv({ allErrors: true }).compile(strict);
  validators.set(name, validator);
  return validator;
}

/** An answer's problems. Empty if it is valid. */
export function answerProblems(name: string, text: string): readonly string[] {
  const validate = validatorOf(name);
  if (validate(parseJson(text))) return [];
  return (validate.errors ?? []).map(
    ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
  );
}

/** Fails if a command with these arguments printed JSON that its schema does not describe. */
export function assertDescribed(args: readonly string[], out: string): void {
  const isJson = /(?:^| )(?:-o ?|--output[ =])json\b/.test(args.join(" "));
  if (!isJson || out === "") return;
  assert.deepEqual(answerProblems(args[0] ?? "", out), [], `${args.join(" ")} printed ${out}`);
}
