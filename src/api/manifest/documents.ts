import { errorText } from "../../base/error-text.ts";
import { parseJson } from "../../base/parse-json.ts";
import { parseYamlDocuments } from "../../base/yaml.ts";
import { fieldOf } from "../decode/fields.ts";

/** A value in a manifest file, and its position. Lists are split into their items. */
export interface ManifestValue {
  readonly value: unknown;
  /** Suffix for the file's name, such as `:12` or `:1 items[3]`. Values in JSON files have no line number. */
  readonly place: string;
}

/** A syntax error in a YAML or JSON file. Line and column start at 1. */
export interface SyntaxProblem {
  readonly line: number;
  readonly column: number;
  readonly reason: string;
}

export type FileContent =
  | { readonly kind: "values"; readonly values: readonly ManifestValue[] }
  | { readonly kind: "problem"; readonly problem: SyntaxProblem };

/** Parses a manifest file: JSON if the name ends in .json, otherwise YAML. Pure. Never throws. */
export function readDocuments(fileName: string, text: string): FileContent {
  return fileName.endsWith(".json") ? readJson(text) : readYaml(text);
}

/** Any problem, such as a duplicate key, makes the whole file invalid. */
function readYaml(text: string): FileContent {
  const documents = parseYamlDocuments(text);
  const problem = documents.flatMap(({ problems }) => problems)[0];
  if (problem !== undefined) return { kind: "problem", problem };
  const values = documents.flatMap(({ value, line }) => membersOf({ value, place: `:${line}` }));
  return { kind: "values", values };
}

/** JSON has its own parser, because JSON.parse is a hundred times faster than the YAML parser. */
function readJson(text: string): FileContent {
  try {
    return { kind: "values", values: membersOf({ value: parseJson(text), place: "" }) };
  } catch (error) {
    const reason = errorText(error);
    const position = /line (\d+) column (\d+)/.exec(reason);
    // Errors at the end of the text have no position.
    const line = position === null ? text.split("\n").length : Number(position[1]);
    return { kind: "problem", problem: { line, column: Number(position?.[2] ?? 1), reason } };
  }
}

/** The items of a list object (`kind: List` or `ServiceList`), or the value itself. */
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

/** Items of a ServiceList may omit their kind. */
function withKind(item: unknown, kind: string): unknown {
  if (kind === "" || typeof item !== "object" || item === null) return item;
  return fieldOf(item, "kind") === undefined ? { ...item, kind } : item;
}
