import {
  type Column,
  columnName,
  isExplained,
  type Path,
  type Row,
  type SectionResult,
} from "./path.ts";

/** What was explained of each path that differs from what the packets did; empty: all is well. */
export function explainedOtherwise(results: readonly SectionResult[]): readonly string[] {
  return results.flatMap(({ section, rows }) =>
    rows.flatMap((row) =>
      section.columns
        .filter((column) => explainedIn(row, column) !== row.outcomes.get(columnName(column)))
        .map((column) => differenceText(section.title, row, column)),
    ),
  );
}

/** Where size decides, what the packets did. */
function explainedIn(row: Row, column: Column): string | undefined {
  const { path, outcomes, explained } = row;
  return (isExplained(path, column) ? explained : outcomes)?.get(columnName(column));
}

function differenceText(title: string, row: Row, column: Column): string {
  const name = columnName(column);
  const { labels }: Path = row.path;
  const [seen, said] = [row.outcomes.get(name), explainedIn(row, column)];
  return `${title}: ${labels.join(", ")}, ${name}: ${seen}, explained as ${said}`;
}
