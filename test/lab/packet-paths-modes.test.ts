/** Tests packet paths in iptables and userspace mode with real connections, for sections that run fast. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { dataRows, matrixText } from "../packet-paths/document.ts";
import { explainedOtherwise } from "../packet-paths/explained-otherwise.ts";
import { modeSections } from "../packet-paths/modes.ts";
import { columnName, expectedIn, type Path, type SectionResult } from "../packet-paths/path.ts";
import { runModes } from "../packet-paths/run-modes.ts";

const path = join(import.meta.dirname, "../../docs/reports/data/packet-paths-modes.tsv");
let results: Awaited<ReturnType<typeof runModes>> = [];

/** `cluster IP, Cluster, pod: TCP IPv4 local←pod` */
function lines(
  { section, rows }: SectionResult,
  outcomeOf: (path: Path, row: SectionResult["rows"][number], index: number) => string | undefined,
): readonly string[] {
  return rows.flatMap((row) =>
    section.columns.map(
      (column, index) =>
        `${row.path.labels.join(", ")}: ${columnName(column)} ${outcomeOf(row.path, row, index)}`,
    ),
  );
}

describe("packet paths in iptables and userspace mode", () => {
  before(async () => {
    results = await runModes("always");
    for (const { results: ofMode } of results) console.log(matrixText(ofMode));
  });

  for (const { mode, always } of modeSections) {
    for (const section of always) {
      it(`${mode}: ${section.title}: ${section.paths.length} paths`, () => {
        const ofMode = results.find(({ given }) => given.mode === mode)?.results ?? [];
        const result = ofMode.find((one) => one.section === section) ?? assert.fail();
        const { columns } = section;
        const seen = lines(result, (_, { outcomes }, index) =>
          outcomes.get(columnName(columns[index] ?? assert.fail())),
        );
        const expected = lines(result, (tried, _, index) =>
          expectedIn(tried, columns[index] ?? assert.fail()),
        );
        assert.deepEqual(seen, expected);
        assert.deepEqual(
          explainedOtherwise([result]),
          [],
          "explain predicts what happened to the packets",
        );
        assert.ok(readFileSync(path, "utf8").includes(dataRows(result, mode)), "the data file");
      });
    }
  }
});
