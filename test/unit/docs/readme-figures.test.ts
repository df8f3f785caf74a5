/** Tests that each figure in the README's table of measurements is in the linked report, possibly rounded. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { Run } from "../../cluster/report.ts";
import { rowsOf } from "../../support/documents/named-tests.ts";

const project = join(import.meta.dirname, "../../..");
const read = (path: string): string => readFileSync(join(project, path), "utf8");
const readme = read("README.md");

/** The numbers in kube-ipvs's cell of the row that begins with this text. */
function readmeNumbers(begin: string): readonly number[] {
  const cells = rowsOf(readme.split("\n")).find(([first = ""]) => first.includes(begin));
  assert.ok(cells !== undefined, `README has no row: ${begin}`);
  const numbers = (cells[1] ?? "").matchAll(/(?<![\d.])\d[\d,.]*\d|\d/g);
  return [...numbers].map(([text]) => numberIn(text));
}

const numberIn = (text: string): number => Number.parseFloat(text.replaceAll(",", ""));

const benchmarks = rowsOf(read("docs/reports/benchmarks.md").split("\n"));

/** The measured values of the targets whose case and figure match. */
function measured(caseName: RegExp, figure: string): readonly number[] {
  const rows = benchmarks.filter(([name = "", what = ""]) => {
    return caseName.test(name) && what.startsWith(figure);
  });
  assert.ok(rows.length > 0, `benchmarks.md has no figure: ${figure}`);
  return rows.map(([, , , value = ""]) => numberIn(value));
}

/** All numbers in the rows of the report's two-day table that begin with this text. */
function onBothDays(begin: string): readonly number[] {
  const [, section = ""] = read("docs/reports/scale.md").split("### From day to day");
  const rows = rowsOf((section.split("\n### ")[0] ?? "").split("\n")).filter(([name = ""]) =>
    name.startsWith(begin),
  );
  assert.ok(rows.length > 0, `scale.md has no row: ${begin}`);
  return rows.flatMap(([, ...cells]) =>
    [...cells.join(" ").matchAll(/\d[\d.]*/g)].map(([text]) => numberIn(text)),
  );
}

/** The README shows the minimum and the maximum, with any number of decimals. */
function assertRange(shown: readonly number[], measurements: readonly number[]): void {
  assert.equal(shown.length, 2);
  for (const [index, exact] of [Math.min(...measurements), Math.max(...measurements)].entries()) {
    const decimals = String(shown[index]).split(".")[1]?.length ?? 0;
    const most = 0.5 * 10 ** -decimals + 1e-9;
    assert.ok(Math.abs((shown[index] ?? Number.NaN) - exact) <= most, `${shown}: ${exact}`);
  }
}

describe("the README's figures", () => {
  it("have the range of a change's CPU time on the recorded days, with any number of Services", () => {
    assertRange(readmeNumbers("CPU time per endpoint change"), [
      ...measured(/^change-\d+$/, "CPU per change"),
      ...onBothDays("CPU time per endpoint change"),
    ]);
  });

  it("have the range of the first sync on the recorded days", () => {
    const [benchmark = 0] = measured(/^first-sync-5000$/, "first sync");
    const days = onBothDays("First sync, 5,000");
    assertRange(readmeNumbers("First sync of 5,000 Services"), [benchmark / 1_000, ...days]);
  });

  it("have the number of connections that kills broke", () => {
    const rows = read("docs/reports/data/faults.tsv").trim().split("\n");
    const cells = rows.map((row) => row.split("\t"));
    const kills = cells.filter(([name = ""]) => name.startsWith("SIGKILL"));
    const sum = (column: number): number =>
      kills.reduce((total, counts) => total + numberIn(counts[column] ?? ""), 0);
    assert.ok(readme.includes(`| ${sum(1)} SIGKILLs during changes |`));
    assert.deepEqual(readmeNumbers("SIGKILLs"), [sum(3), sum(2), sum(5), sum(4)]);
  });

  it("have the numbers of Kubernetes' specs that each proxy passed in IPVS mode", () => {
    const runs = (JSON.parse(read("docs/reports/data/conformance.json")) as readonly Run[]).filter(
      ({ mode }) => mode === "ipvs",
    );
    const passed = (proxy: string): number => {
      const specs = runs.filter((run) => run.proxy === proxy).flatMap((run) => run.specs);
      const titles = specs.filter(({ state }) => state === "passed").map(({ title }) => title);
      return new Set(titles).size;
    };
    const all = new Set(runs.flatMap(({ specs }) => specs.map(({ title }) => title))).size;
    const shown = readmeNumbers("[sig-network]");
    assert.deepEqual(shown, [passed("kube-ipvs"), passed("kube-proxy"), all]);
  });

  it("have the measurements with kube-proxy 1.36.2", () => {
    const rows = rowsOf(read("docs/reports/scale.md").split("\n"));
    const both = (begin: string): readonly string[] => {
      const [, ...cells] = rows.find(([name = ""]) => name.startsWith(begin)) ?? [];
      return cells.map((cell) => cell.trim());
    };
    const text = readme.replaceAll("\n", " ");
    const [ours, theirs] = both("CPU time per endpoint change (means");
    const [memory, theirMemory] = both("anonymous memory after the changes");
    assert.ok(
      text.includes(`${theirs} of CPU time per change and ${theirMemory} of anonymous memory.`),
    );
    assert.ok(text.includes(`kube-ipvs needs ${ours} and ${memory}.`));
    const [, programs] = both("programs started per endpoint change");
    assert.ok(text.includes(`kube-proxy 1.36.2 starts ${programs}.`));
  });
});
