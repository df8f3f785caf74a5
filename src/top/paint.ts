/** Lines → what is sent to the terminal: only lines that differ, since it may be far away. Pure. */
import type { Emphasis, ScreenLine } from "./screen.ts";

/** SGR codes of ECMA-48; `plain` needs none. */
const codes: Readonly<Record<Exclude<Emphasis, "plain">, number>> = {
  titles: 1,
  chosen: 7,
  note: 33,
};

/** `before`: what is on the screen; undefined: nobody knows. */
export function paint(
  lines: readonly ScreenLine[],
  before: readonly ScreenLine[] | undefined,
  hasColor: boolean,
): string {
  const changed = lines.flatMap((line, index) => {
    const old = before?.[index];
    const isSame = old !== undefined && old.text === line.text && old.emphasis === line.emphasis;
    // The line is erased before it is written: its last column would be erased after.
    return isSame ? [] : [`\u001b[${index + 1};1H\u001b[2K${lineText(line, hasColor)}`];
  });
  return (before === undefined ? "\u001b[2J" : "") + changed.join("");
}

function lineText({ text, emphasis }: ScreenLine, hasColor: boolean): string {
  if (!hasColor || emphasis === "plain") return text;
  return `\u001b[${codes[emphasis]}m${text}\u001b[0m`;
}
