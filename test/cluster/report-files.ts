/**
 * Reads and writes the report in docs/reports. `node test/cluster/report-files.ts` writes it again from the recorded
 * data.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { manifestTable, type Run, reportText, requestTable, specTable, withRun } from "./report.ts";

const reports: string = join(import.meta.dirname, "../../docs/reports");
const recordedRuns = "data/conformance.json";

function read(path: string): string {
  return existsSync(join(reports, path)) ? readFileSync(join(reports, path), "utf8") : "";
}

function readRuns(): readonly Run[] {
  return JSON.parse(read(recordedRuns) || "[]") as readonly Run[];
}

/** The report's files that are written from other files, by path in docs/reports. */
export function writtenFiles(): Readonly<Record<string, string>> {
  const runs = readRuns();
  return {
    "data/conformance.tsv": specTable(runs),
    "data/conformance-requests.tsv": requestTable(runs),
    "data/conformance-manifests.tsv": manifestTable(runs),
    "conformance.md": reportText(runs, read("data/cluster-latency.tsv")),
  };
}

function writeFiles(files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) writeFileSync(join(reports, path), text);
}

export function addRun(run: Run): void {
  const runs = withRun(readRuns(), run);
  writeFiles({ [recordedRuns]: `${JSON.stringify(runs, undefined, 1)}\n` });
  writeFiles(writtenFiles());
}

/** Changes a table in docs/reports/data. */
export function rewriteTable(name: string, change: (earlier: string) => string): void {
  const path = join("data", name);
  writeFiles({ [path]: change(read(path)) });
  writeFiles(writtenFiles());
}

if (import.meta.main) writeFiles(writtenFiles());
