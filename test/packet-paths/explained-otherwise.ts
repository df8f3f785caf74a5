import {
  type Column,
  columnName,
  isExplained,
  type Path,
  type Row,
  type SectionResult,
} from "./path.ts";

/** Differences between the predictions of `explain` and the actual outcomes. Empty if there are none. */
export function explainedOtherwise(results: readonly SectionResult[]): readonly string[] {
  return results.flatMap(({ section, rows }) =>
    rows.flatMap((row) =>
      section.columns
        .filter((column) => explainedIn(row, column) !== row.outcomes.get(columnName(column)))
        .map((column) => differenceText(section.title, row, column)),
    ),
  );
}

/** The actual outcome, if the packet size decides it. */
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
