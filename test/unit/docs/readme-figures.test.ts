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

const benchmarks = rowsOf(read("docs/reports/benchmarks.md").split("\n"));

/** What was measured in the rows of the targets whose case and figure match. */
function measured(caseName: RegExp, figure: string): readonly number[] {
  const rows = benchmarks.filter(([name = "", what = ""]) => {
    return caseName.test(name) && what.startsWith(figure);
  });
  assert.ok(rows.length > 0, `benchmarks.md has no figure: ${figure}`);
  return rows.map(([, , , value = ""]) => numberIn(value));
}

/** With as many decimals as `shown` has. */
function assertRounded(shown: number | undefined, exact: number): void {
  const decimals = String(shown).split(".")[1]?.length ?? 0;
  const most = 0.5 * 10 ** -decimals + 1e-9;
  assert.ok(Math.abs((shown ?? Number.NaN) - exact) <= most, `README: ${shown}, report: ${exact}`);
}

describe("the figures of the README", () => {
  it("have the least and the most of what a change costs, with any number of Services", () => {
    const [least, most] = readmeNumbers("CPU time");
    const all = measured(/^change-\d+$/, "CPU per change");
    assertRounded(least, Math.min(...all));
    assertRounded(most, Math.max(...all));
  });

  it("have the least and the most median of the latency, and a bound that all p99 keep", () => {
    const [least, most, percent, bound = 0] = readmeNumbers("API server's write");
    const medians = measured(/^change-\d+$/, "API server's write to kernel changed, p50");
    assertRounded(least, Math.min(...medians));
    assertRounded(most, Math.max(...medians));
    assert.equal(percent, 99);
    const slowest = Math.max(...measured(/^change-/, "API server's write to kernel changed, p99"));
    assert.ok(slowest <= bound, `${slowest} ms`);
  });

  it("have the first sync and the restart in seconds", () => {
    const [firstSync] = readmeNumbers("first sync of 5,000 Services");
    const [firstSyncMs = 0] = measured(/^first-sync-5000$/, "first sync");
    assertRounded(firstSync, firstSyncMs / 1_000);
    const [restart, writes] = readmeNumbers("Restart with 10,000 Services");
    const [restartMs = 0] = measured(/^restart$/, "start of the process to ready");
    assertRounded(restart, restartMs / 1_000);
    assert.deepEqual([writes], measured(/^restart$/, "writes of three restarts"));
  });

  it("have the memory after changes", () => {
    const figure = "anonymous, peak until then: after 30,000 changes";
    const [most = 0] = measured(/^memory-5000x5$/, figure);
    assertRounded(readmeNumbers("nonymous memory")[0], most);
  });

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
