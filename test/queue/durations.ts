/**
 * How long each job took in an earlier run, in seconds. The queue starts the longest job first. `--record` writes the
 * durations of a run into durations.json, which is kept with the sources so that a fresh clone has them too.
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

/** Returns the durations with those of the passed jobs. */
export function updatedDurations(known: Durations, outcomes: readonly Outcome[]): Durations {
  const measured = outcomes
    .filter(({ failure }) => failure === undefined)
    .map(({ name, seconds }) => [name, Math.round(seconds)] as const);
  const all = [...new Map([...Object.entries(known), ...measured])];
  return Object.fromEntries(all.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}
