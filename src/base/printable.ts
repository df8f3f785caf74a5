/** Control and format characters (line ends, terminal escapes, text direction), and unpaired surrogates. */
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu;

/** Escapes characters that would break a line or change its display, as in JSON: `\\u202e`. Pure. */
export function escapeUnprintable(text: string): string {
  return text.replace(unprintable, (character) =>
    Array.from(
      { length: character.length },
      (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`,
    ).join(""),
  );
}
