/**
 * Each job's duration in an earlier run, in seconds. The queue starts the longest job first. `--record` writes a run's
 * durations to durations.json, which is kept with the sources so that a fresh clone has it, too.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Outcome } from "./job.ts";

export type Durations = Readonly<Record<string, number>>;

const path: string = join(import.meta.dirname, "durations.json");

export function readDurations(): Durations {
  return JSON.parse(readFileSync(path, "utf8")) as Durations;
}

export function writeDurations(durations: Durations): void {
  writeFileSync(path, `${JSON.stringify(durations, undefined, 2)}\n`);
}

/** Returns the durations, updated with those of the jobs that passed. */
export function updatedDurations(known: Durations, outcomes: readonly Outcome[]): Durations {
  const measured = outcomes
    .filter(({ failure }) => failure === undefined)
    .map(({ name, seconds }) => [name, Math.round(seconds)] as const);
  const all = [...new Map([...Object.entries(known), ...measured])];
  return Object.fromEntries(all.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}
