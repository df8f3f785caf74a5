import { errorText } from "../../base/error-text.ts";
import { parseJson } from "../../base/parse-json.ts";
import { parseYamlDocuments } from "../../base/yaml.ts";
import { fieldOf } from "../decode/fields.ts";

/** A value of a manifest file, and where it is. Lists are taken apart. */
export interface ManifestValue {
  readonly value: unknown;
  /** To be read after the file's name: `:12`, `:1 items[3]`; JSON has no lines. */
  readonly place: string;
}

/** A file that cannot be read as YAML or JSON; line and column count from 1. */
export interface SyntaxProblem {
  readonly line: number;
  readonly column: number;
  readonly reason: string;
}

export type FileContent =
  | { readonly kind: "values"; readonly values: readonly ManifestValue[] }
  | { readonly kind: "problem"; readonly problem: SyntaxProblem };

/** Reads the text of a manifest file: JSON by its name, else YAML. Pure; never throws. */
export function readDocuments(fileName: string, text: string): FileContent {
  return fileName.endsWith(".json") ? readJson(text) : readYaml(text);
}

/** Any problem, also a key that comes twice, makes the whole file count as broken. */
function readYaml(text: string): FileContent {
  const documents = parseYamlDocuments(text);
  const problem = documents.flatMap(({ problems }) => problems)[0];
  if (problem !== undefined) return { kind: "problem", problem };
  const values = documents.flatMap(({ value, line }) => membersOf({ value, place: `:${line}` }));
  return { kind: "values", values };
}

/** JSON.parse is a hundred times as fast as a YAML reader. */
function readJson(text: string): FileContent {
  try {
    return { kind: "values", values: membersOf({ value: parseJson(text), place: "" }) };
  } catch (error) {
    const reason = errorText(error);
    const position = /line (\d+) column (\d+)/.exec(reason);
    // An unfinished text has no position: it is the end.
    const line = position === null ? text.split("\n").length : Number(position[1]);
    return { kind: "problem", problem: { line, column: Number(position?.[2] ?? 1), reason } };
  }
}

/** The members of a list object (`kind: List`, `ServiceList`), or the value itself. */
function membersOf({ value, place }: ManifestValue): readonly ManifestValue[] {
  const kind = fieldOf(value, "kind");
  const items = fieldOf(value, "items");
  if (typeof kind !== "string" || !kind.endsWith("List") || !Array.isArray(items)) {
    return [{ value, place }];
  }
  const impliedKind = kind.slice(0, -"List".length);
  return items.map((item: unknown, index) => ({
    value: withKind(item, impliedKind),
    place: `${place} items[${index}]`,
  }));
}

/** Members of a ServiceList need not repeat their kind. */
function withKind(item: unknown, kind: string): unknown {
  if (kind === "" || typeof item !== "object" || item === null) return item;
  return fieldOf(item, "kind") === undefined ? { ...item, kind } : item;
}
