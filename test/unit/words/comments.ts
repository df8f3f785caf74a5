/** Finds the comments of TypeScript and C source, line by line. */

export interface CommentLine {
  readonly line: number;
  /** Without the signs of the comment and what is quoted in it. */
  readonly text: string;
}

const blockComment = /\/\*[\s\S]*?\*\//;
const lineComment = /\/\/[^\n]*/;
const literal = /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`/;
/** A regular expression begins where a value may begin; what looks like a comment in it is none. */
const regularExpression =
  /(?<=[=(,:!&|?{;[]\s*|return )\/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])+\//;
const token: RegExp = new RegExp(
  `(${blockComment.source}|${lineComment.source})|${regularExpression.source}|${literal.source}`,
  "g",
);

export function commentLines(source: string): readonly CommentLine[] {
  return [...source.matchAll(token)].flatMap(({ 1: comment, index }) => {
    if (comment === undefined) return [];
    const first = source.slice(0, index).split("\n").length;
    return comment.split("\n").map((text, offset) => ({
      line: first + offset,
      text: text
        .replaceAll(/`[^`]*`|"[^"]*"|\{@\w+ [^}]*\}/g, "")
        .replace(/^\s*(?:\/\*\*?|\*\/?|\/\/)\s?/, "")
        .trim(),
    }));
  });
}
