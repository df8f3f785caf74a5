/** Tests every row of the packet path matrix with real connections, and compares it with the report. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { dataText, matrixText } from "../packet-paths/document.ts";
import {
  type ColumnName,
  columnName,
  expectedIn,
  isExplained,
  type Row,
} from "../packet-paths/path.ts";
import { runPacketPaths } from "../packet-paths/run.ts";
import { allSections } from "../packet-paths/sections.ts";

const reports = join(import.meta.dirname, "../../docs/reports");
let results: Awaited<ReturnType<typeof runPacketPaths>> = [];

/** `cluster IP, Cluster, pod, TCP IPv4: local←pod` */
function line({ path: { labels } }: Row, name: ColumnName, outcome: string | undefined): string {
  return `${labels.join(", ")}, ${name}: ${outcome}`;
}

describe("packet paths", () => {
  before(async () => {
    results = await runPacketPaths();
    console.log(matrixText(results));
  });

  for (const [index, section] of allSections.entries()) {
    it(`${section.title}: ${section.paths.length} paths`, () => {
      const rows = results[index]?.rows ?? [];
      const lines = rows.flatMap((row) =>
        section.columns.map((column) => {
          const name = columnName(column);
          const [seen, expected] = [row.outcomes.get(name), expectedIn(row.path, column)];
          return { seen: line(row, name, seen), expected: line(row, name, expected) };
        }),
      );
      assert.equal(rows.length, section.paths.length);
      assert.deepEqual(
        lines.map(({ seen }) => seen),
        lines.map(({ expected }) => expected),
      );
    });
  }

  it("`explain` predicts the outcome of every row", (test) => {
    const lines = results.flatMap(({ section, rows }) =>
      rows.flatMap((row) =>
        section.columns
          .filter((column) => isExplained(row.path, column))
          .map((column) => {
            const name = columnName(column);
            // A system call that fails immediately is also treated as refused.
            const seen = row.outcomes.get(name)?.replace("EPERM", "refused");
            const explained = row.explained?.get(name);
            return { seen: line(row, name, seen), explained: line(row, name, explained) };
          }),
      ),
    );
    test.diagnostic(`${lines.length} paths`);
    assert.deepEqual(
      lines.map(({ explained }) => explained),
      lines.map(({ seen }) => seen),
    );
  });

  it("docs/reports/data/packet-paths.tsv contains the outcomes; `make packet-paths` writes it", () => {
    const written = readFileSync(join(reports, "data/packet-paths.tsv"), "utf8");
    assert.deepEqual(dataText(results).split("\n"), written.split("\n"));
  });
});
