/** Splits a saved rule into words, undoing the quotes and escapes of iptables-save. Pure. */

/** Characters and quoted stretches, in which `\` takes the next character; or a quote that is not closed. */
const wordPattern = /(?:[^ "]|"(?:[^"\\]|\\.)*")+|"/gs;

/** The words of a line; `undefined` when a quote is not closed. */
export function splitWords(text: string): readonly string[] | undefined {
  const words: readonly string[] = text.match(wordPattern) ?? [];
  return words.includes('"') ? undefined : words.map(unquoted);
}

function unquoted(word: string): string {
  if (!word.includes('"')) return word;
  const quoted = /"((?:[^"\\]|\\.)*)"/gs;
  return word.replaceAll(quoted, (_, text: string) => text.replaceAll(/\\(.)/gs, "$1"));
}
