/**
 * Commands and their output in document blocks that begin with ```console lab. A line `$ COMMAND` is a command, and the
 * lines after it are its output. `…` matches any text in a line or, on a line by itself, any lines. Pure.
 */

export interface DocumentedCommand {
  /** Line number in the document, from 1. */
  readonly line: number;
  readonly command: string;
  /** Expected output. If empty, any output is accepted. */
  readonly output: readonly string[];
}

const opening = "```console lab";

/** The commands of all blocks, in order. */
export function readCommands(document: string): readonly DocumentedCommand[] {
  const commands: DocumentedCommand[] = [];
  let isInside = false;
  for (const [index, text] of document.split("\n").entries()) {
    if (!isInside || text === "```") isInside = text === opening;
    else if (text.startsWith("$ "))
      commands.push({ line: index + 1, command: text.slice(2), output: [] });
    else {
      const last = commands.pop();
      if (last === undefined) throw new Error(`Line ${index + 1}: output without a command`);
      commands.push({ ...last, output: [...last.output, text] });
    }
  }
  return commands;
}

/** Whether the output matches the document. Ignores trailing whitespace. */
export function isAsShown(shown: readonly string[], printed: string): boolean {
  const lines = printed.split("\n").map((line) => line.trimEnd());
  while (lines.at(-1) === "") lines.pop();
  return patternOf(shown).test(lines.map((line) => `${line}\n`).join(""));
}

function patternOf(shown: readonly string[]): RegExp {
  const parts = shown.map((line) => (line === "…" ? "(?:.*\\n)*" : `${linePattern(line)}\\n`));
  return new RegExp(`^${parts.join("")}$`);
}

function linePattern(line: string): string {
  return line
    .trimEnd()
    .split("…")
    .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"))
    .join(".*");
}
