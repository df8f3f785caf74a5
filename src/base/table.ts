/** Tables for terminals. Pure. */
import { escapeUnprintable } from "./printable.ts";

export interface Column<Row> {
  readonly title: string;
  readonly text: (row: Row) => string;
  readonly isNumber?: true;
}

/** A line for the titles and one for each row, aligned, cut off at `width`; undefined: never. */
export function tableLines<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  width?: number,
): readonly string[] {
  const cells = rows.map((row) =>
    columns.map(({ text }) => {
      const shown = escapeUnprintable(text(row));
      return shown === "" ? "-" : shown;
    }),
  );
  const widths = columns.map(({ title }, index) => {
    let widest = title.length;
    for (const row of cells) widest = Math.max(widest, row[index]?.length ?? 0);
    return widest;
  });
  const line = (texts: readonly string[]): string => {
    const padded = texts.map((text, index) =>
      columns[index]?.isNumber === true
        ? text.padStart(widths[index] ?? 0)
        : text.padEnd(widths[index] ?? 0),
    );
    return truncated(padded.join("  ").trimEnd(), width);
  };
  return [line(columns.map(({ title }) => title)), ...cells.map(line)];
}

/** The last column says that something is left out. */
export function truncated(line: string, width: number | undefined): string {
  if (width === undefined || width < 1 || line.length <= width) return line;
  return `${line.slice(0, width - 1)}…`;
}
