/** Finds the string and template literals of TypeScript source, without comments. */

export interface StringLiteral {
  readonly line: number;
  /** As written, without its quotes. */
  readonly text: string;
}

const comment = /\/\/[^\n]*|\/\*[\s\S]*?\*\//;
const literal = /"((?:\\.|[^"\\\n])*)"|'((?:\\.|[^'\\\n])*)'|`((?:\\.|[^`\\])*)`/;
/** A regular expression begins where a value may begin; its quotes start no string. */
const regularExpression =
  /(?<=[=(,:!&|?{;]\s*|return )\/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])+\//;
const token: RegExp = new RegExp(
  [comment, regularExpression, literal].map(({ source }) => source).join("|"),
  "g",
);

export function stringLiterals(source: string): readonly StringLiteral[] {
  return [...source.matchAll(token)].flatMap(({ 1: double, 2: single, 3: template, index }) => {
    const text = double ?? single ?? template;
    return text === undefined ? [] : [{ line: lineAt(source, index), text }];
  });
}

function lineAt(source: string, index: number): number {
  return source.slice(0, index).split("\n").length;
}
