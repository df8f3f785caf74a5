/** Splits a saved rule into words, undoing the quotes and escapes of iptables-save. Pure. */

/** The words of a line; `undefined` when a quote is not closed. */
export function splitWords(text: string): readonly string[] | undefined {
  if (!text.includes('"')) return text.split(" ").filter((word) => word !== "");
  return splitQuoted(text);
}

function splitQuoted(text: string): readonly string[] | undefined {
  const words: string[] = [];
  let at = 0;
  while (at < text.length) {
    if (text[at] === " ") {
      at += 1;
      continue;
    }
    const word = readWord(text, at);
    if (word === undefined) return undefined;
    words.push(word.value);
    at = word.end;
  }
  return words;
}

/** One word from `start`: bare up to a blank, with quoted stretches in which `\` takes the next character. */
function readWord(text: string, start: number): { value: string; end: number } | undefined {
  let value = "";
  let isQuoted = false;
  let at = start;
  for (; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') isQuoted = !isQuoted;
    else if (character === "\\" && isQuoted) {
      at += 1;
      if (at === text.length) return undefined;
      value += text[at];
    } else if (character === " " && !isQuoted) break;
    else value += character;
  }
  return isQuoted ? undefined : { value, end: at };
}
