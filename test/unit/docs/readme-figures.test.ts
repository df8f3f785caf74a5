/** Each figure of README's table of measurements stands in the report that it links, rounded. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { rowsOf } from "../../support/documents/named-tests.ts";

const project = join(import.meta.dirname, "../../..");
const read = (path: string): string => readFileSync(join(project, path), "utf8");
const readme = read("README.md");

/** The numbers of kube-ipvs' cell in the row that begins so. */
function readmeNumbers(begin: string): readonly number[] {
  const cells = rowsOf(readme.split("\n")).find(([first = ""]) => first.includes(begin));
  assert.ok(cells !== undefined, `README has no row: ${begin}`);
  const numbers = (cells[1] ?? "").matchAll(/(?<![\d.])\d[\d,.]*\d|\d/g);
  return [...numbers].map(([text]) => numberIn(text));
}

const numberIn = (text: string): number => Number.parseFloat(text.replaceAll(",", ""));

describe("the figures of the README", () => {
  it("have the connections that kills and other faults broke", () => {
    const report = read("docs/reports/reliability.md");
    const [, table = ""] = report.split(/^<!-- (?:end of )?faults.*$/m);
    const rows = rowsOf(table.split("\n"))
      .map(([name = "", ...cells]) => ({ name, counts: cells.map(numberIn) }))
      .filter(({ counts: [tried = Number.NaN] }) => !Number.isNaN(tried));
    const sum = (chosen: typeof rows, column: number): number =>
      chosen.reduce((total, { counts }) => total + (counts[column] ?? 0), 0);
    const kills = rows.filter(({ name }) => name.startsWith("SIGKILL"));
    const faults = rows.filter(({ name }) => !name.startsWith("No fault"));
    const [random, middle] = kills.map(({ counts }) => counts[0]);
    assert.ok(readme.includes(`${random} at random, ${middle} in the middle of a sync`));
    const shown = readmeNumbers("Kills go unnoticed");
    assert.deepEqual(shown, [
      ...[sum(kills, 2), sum(kills, 1), sum(kills, 4), sum(kills, 3)],
      ...[faults.length, sum(faults, 2), sum(faults, 1)],
    ]);
  });

  it("have what was measured beside kube-proxy", () => {
    const rows = rowsOf(read("docs/reports/scale.md").split("\n"));
    const both = (begin: string): readonly number[] => {
      const [, ...cells] = rows.find(([name = ""]) => name.startsWith(begin)) ?? [];
      return cells.map(numberIn);
    };
    assert.deepEqual(readmeNumbers("Beside [kube-proxy"), [
      ...both("processor time of one changed endpoint"),
      ...both("objects read to all in the kernel"),
      ...both("anonymous memory after the changes"),
    ]);
  });
});
