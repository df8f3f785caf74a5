/** The word that was probably meant, or undefined where none is near. Pure. */
export function suggest(written: string, words: readonly string[]): string | undefined {
  const ranked = words
    .map((word) => ({ word, distance: distanceOf(written.toLowerCase(), word) }))
    // More wrong than right letters are another word.
    .filter(({ word, distance }) => distance <= 3 && distance < word.length / 2)
    .sort((one, other) => one.distance - other.distance);
  return ranked[0]?.word;
}

/** Letters to insert, remove, replace, or swap with their neighbor. */
function distanceOf(from: string, to: string): number {
  const rows: number[][] = [Array.from({ length: to.length + 1 }, (_, column) => column)];
  const at = (row: number, column: number): number => rows[row]?.[column] ?? 0;
  for (let row = 1; row <= Math.min(from.length, 40); row += 1) {
    const next = [row];
    rows.push(next);
    for (let column = 1; column <= to.length; column += 1) {
      const isSame = from[row - 1] === to[column - 1];
      const isSwap = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      next.push(
        Math.min(
          at(row - 1, column) + 1,
          at(row, column - 1) + 1,
          at(row - 1, column - 1) + (isSame ? 0 : 1),
          ...(isSwap && row > 1 && column > 1 ? [at(row - 2, column - 2) + 1] : []),
        ),
      );
    }
  }
  return at(rows.length - 1, to.length);
}
