import {
  isAlias,
  LineCounter,
  parseAllDocuments,
  type ScalarTag,
  stringify,
  type Tags,
  visit,
  type YAMLError,
} from "yaml";

/** A problem in a YAML text; `line` and `column` start at 1. */
export interface YamlProblem {
  readonly line: number;
  readonly column: number;
  /** With `duplicate-key`, the last value of the key applies. With `syntax`, the document has no value. */
  readonly kind: "syntax" | "duplicate-key";
  readonly reason: string;
}

export interface YamlDocument {
  /** The line on which the content begins, starting at 1. */
  readonly line: number;
  /** Plain objects, arrays, strings, numbers, booleans or null. Undefined after a syntax error. */
  readonly value: unknown;
  readonly problems: readonly YamlProblem[];
}

export interface YamlOptions {
  /** Whether to return numbers as strings, as written in the text. */
  readonly areNumbersText?: boolean;
}

/** Maximum number of aliases in a document. Nested aliases could make it grow exponentially. */
const maxAliases = 100;

/** Only the first problems are reported, because one mistake can cause hundreds of others. */
const maxProblems = 10;

/** Words that are booleans in YAML 1.1, which the Kubernetes tools read. */
const oldBoolean: ScalarTag = {
  tag: "tag:yaml.org,2002:bool",
  default: true,
  test: /^(?:[Yy]es|YES|[Nn]o|NO|[Oo]n|ON|[Oo]ff|OFF)$/,
  resolve: (text) => /^(?:yes|on)$/i.test(text),
};

/**
 * Parses the documents of a YAML or JSON text; never throws. Skips documents that are empty or contain only comments. Documents are returned even if others have errors.
 */
export function parseYamlDocuments(
  text: string,
  { areNumbersText = false }: YamlOptions = {},
): readonly YamlDocument[] {
  const lines = new LineCounter();
  try {
    const documents = parseAllDocuments(text, {
      lineCounter: lines,
      prettyErrors: false,
      logLevel: "silent",
      merge: true,
      customTags: (tags) => [
        ...(areNumbersText ? tags.filter((tag) => !isNumberTag(tag)) : tags),
        oldBoolean,
      ],
    });
    if ("empty" in documents) return [];
    return documents
      .map((document) => readDocument(document, lines))
      .filter(({ value, problems }) => value !== null || problems.length > 0);
  } catch (error) {
    // The parser is recursive, so thousands of nested levels exhaust the stack.
    return [brokenAt({ line: 1, col: 1 }, error instanceof Error ? error.message : String(error))];
  }
}

function isNumberTag(tag: Tags[number]): boolean {
  return typeof tag !== "string" && /:(?:int|float)$/.test(tag.tag);
}

type ParsedDocument = Extract<ReturnType<typeof parseAllDocuments>, readonly unknown[]>[number];

function readDocument(document: ParsedDocument, lines: LineCounter): YamlDocument {
  const start = lines.linePos(document.contents?.range?.[0] ?? document.range?.[0] ?? 0);
  const problems = document.errors.slice(0, maxProblems).map((error) => problemOf(error, lines));
  if (problems.some(({ kind }) => kind === "syntax")) {
    return { line: start.line, value: undefined, problems };
  }
  if (countAliases(document) > maxAliases)
    return brokenAt(start, `more than ${maxAliases} aliases`);
  try {
    return { line: start.line, value: document.toJS({ maxAliasCount: maxAliases }), problems };
  } catch (error) {
    return brokenAt(start, error instanceof Error ? error.message : String(error));
  }
}

function countAliases(document: ParsedDocument): number {
  let count = 0;
  visit(document, (_, node) => {
    if (isAlias(node)) count += 1;
  });
  return count;
}

function problemOf(error: YAMLError, lines: LineCounter): YamlProblem {
  const { line, col } = lines.linePos(error.pos[0]);
  const kind = error.code === "DUPLICATE_KEY" ? "duplicate-key" : "syntax";
  return { line, column: col, kind, reason: error.message };
}

function brokenAt({ line, col }: { line: number; col: number }, reason: string): YamlDocument {
  const problem: YamlProblem = { line, column: col, kind: "syntax", reason };
  return { line, value: undefined, problems: [problem] };
}

/** Formats a value as YAML 1.1 with sorted keys, as the Kubernetes tools do. */
export function yamlText(value: unknown): string {
  return stringify(value, { version: "1.1", sortMapEntries: true, lineWidth: 0 });
}
