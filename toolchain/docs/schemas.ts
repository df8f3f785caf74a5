/** Derives the JSON Schemas of answers from their TypeScript types. */
import { join } from "node:path";
import { createGenerator, type SchemaGenerator } from "ts-json-schema-generator";

/** Types in answer-types.ts, by the command that prints them. */
export const answerTypes: Readonly<Record<string, string>> = {
  status: "StatusAnswer",
  services: "ServicesAnswer",
  explain: "ExplainAnswer",
  drains: "DrainsAnswer",
  top: "TopAnswer",
  doctor: "DoctorAnswer",
  plan: "PlanAnswer",
  version: "VersionsAnswer",
  "all-nodes": "NodesAnswer",
  e2e: "AcceptanceAnswer",
};

let generator: SchemaGenerator | undefined;

/** Reading the types takes seconds, the first time. */
export function schemaText(command: string): string {
  generator ??= createGenerator({
    path: join(import.meta.dirname, "answer-types.ts"),
    tsconfig: join(import.meta.dirname, "../../tsconfig.json"),
    topRef: false,
    // The project's own compiler checks the types.
    skipTypeCheck: true,
    // Later versions may add fields.
    additionalProperties: true,
  });
  const schema = generator.createSchema(answerTypes[command]);
  const text = JSON.stringify(schema, undefined, 2);
  return `${text.replaceAll(/\s*\{@link\s+(\w+)\s*\}\s*/g, " $1 ")}\n`;
}
