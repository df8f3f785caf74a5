/** Runs that are known to let a shut-out packet through. The list may only shrink. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Exposure } from "./run.ts";

const path = join(import.meta.dirname, "exposed-runs.txt");

/** What is exposed, by run: `first sync | rejected once: link create-link kube-ipvs0`. */
export function readExposedRuns(): ReadonlyMap<string, string> {
  const lines = readFileSync(path, "utf8").split("\n").filter(Boolean);
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(" | ");
      return [line.slice(0, at), line.slice(at + 3)] as const;
    }),
  );
}

export function writeExposedRuns(runs: ReadonlyMap<string, string>): void {
  writeFileSync(path, [...runs].map(([run, kinds]) => `${run} | ${kinds}\n`).join(""));
}

/** `opened, left open`; empty: nothing is exposed. */
export function kindsText(exposures: readonly Exposure[]): string {
  return [...new Set(exposures.map(({ kind }) => kind))].toSorted().join(", ");
}
