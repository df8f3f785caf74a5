/**
 * Adds a recording to the tree: a folder NAME for each scenario, with `scenario.json` and the files of each step in
 * `stepN/`. Writes scenarios/NAME.json and, relative to the existing base, STATES/NAME.txt. Replaces existing files.
 * Usage: node test/golden/pack.ts RECORDING STATES
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type KernelState, type StateFile, stateFiles } from "./kernel-state.ts";
import { baseFile, formatStates, parseStates } from "./recorded-states.ts";

/** JSON levels that are written on separate lines: the file, its steps, each step, and its objects. */
const linedLevels = 4;

function readRecording(folder: string): readonly KernelState[] {
  const steps = readdirSync(folder).filter((name) => /^step\d+$/.test(name));
  return steps.map((_, index) => readState(join(folder, `step${index}`)));
}

function readState(folder: string): KernelState {
  const state: { [File in StateFile]?: string } = {};
  for (const file of stateFiles) {
    const path = join(folder, `${file}.txt`);
    if (existsSync(path)) state[file] = readLines(path);
  }
  return state;
}

/** An empty output is recorded as one empty line. */
function readLines(path: string): string {
  const text = readFileSync(path, "utf8");
  return text === "\n" ? "" : text;
}

function lined(value: unknown, levels: number): string {
  if (levels === 0 || typeof value !== "object" || value === null) return JSON.stringify(value);
  const isList = Array.isArray(value);
  const lines = Object.entries(value).map(([name, inner]) => {
    const text = lined(inner, levels - 1);
    return isList ? text : `${JSON.stringify(name)}: ${text}`;
  });
  if (lines.length === 0) return isList ? "[]" : "{}";
  const [open, close] = isList ? "[]" : "{}";
  return `${open}\n${lines.join(",\n")}\n${close}`;
}

const [recording = "", states = ""] = process.argv.slice(2);
const [base = {}] = parseStates(readFileSync(join(states, baseFile), "utf8"), {});
for (const name of readdirSync(recording)) {
  const text = readFileSync(join(recording, name, "scenario.json"), "utf8");
  const { name: _, ...scenario } = JSON.parse(text) as Record<string, unknown>;
  const path = join(import.meta.dirname, "scenarios", `${name}.json`);
  writeFileSync(path, `${lined(scenario, linedLevels)}\n`);
  writeFileSync(
    join(states, `${name}.txt`),
    formatStates(readRecording(join(recording, name)), base),
  );
}
