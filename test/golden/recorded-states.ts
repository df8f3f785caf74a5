/**
 * A scenario's recorded states as text. The first step is stored as the lines that differ from a base, and each later
 * step as those that differ from the previous step. Pure. README.md describes the format.
 */
import { diff } from "node:util";
import { type KernelState, type StateFile, stateFiles } from "./kernel-state.ts";

/** The state from which all scenarios start, in the same format. */
export const baseFile = "base.txt";

export function formatStates(states: readonly KernelState[], base: KernelState): string {
  const lines = states.flatMap((state, index) => {
    const previous = states[index - 1] ?? base;
    return [
      `== step${index}`,
      ...stateFiles.flatMap((file) => formatFile(file, previous[file], state[file])),
    ];
  });
  return joinLines(lines);
}

export function parseStates(text: string, base: KernelState): readonly KernelState[] {
  const [before, ...steps] = text.split(/^== step\d+\n/m);
  if (before !== "") throw new Error(`Not the head of a step: "${before}"`);
  const states: KernelState[] = [];
  for (const step of steps) states.push(parseState(step, states.at(-1) ?? base));
  return states;
}

function formatFile(
  file: StateFile,
  previous: string | undefined,
  current: string | undefined,
): readonly string[] {
  if (current === previous) return [];
  if (current === undefined) return [`-- ${file}: absent`];
  return [`-- ${file}`, ...formatEdits(splitLines(previous ?? ""), splitLines(current))];
}

/** `3- TEXT`: line 3 was removed. `3+ TEXT`: a new line after line 3. */
function formatEdits(previous: readonly string[], current: readonly string[]): readonly string[] {
  // util.diff throws if both lists are empty.
  if (previous.length === 0 && current.length === 0) return [];
  const edits: string[] = [];
  let number = 0;
  for (const [side, line] of diff(previous, current)) {
    if (side >= 0) number += 1;
    if (side !== 0) edits.push(`${number}${side > 0 ? "-" : "+"} ${line}`);
  }
  return edits;
}

function parseState(step: string, previous: KernelState): KernelState {
  const state: { [File in StateFile]?: string } = { ...previous };
  for (const section of step.split(/^(?=-- )/m).filter((part) => part !== "")) {
    const [head = "", ...edits] = splitLines(section);
    const [, file, absent] = /^-- (\w+)(: absent)?$/.exec(head) ?? [];
    if (!isStateFile(file)) throw new Error(`Not the head of a recorded file: "${head}"`);
    if (absent === undefined) state[file] = parseEdits(splitLines(previous[file] ?? ""), edits);
    else delete state[file];
  }
  return state;
}

function isStateFile(name: string | undefined): name is StateFile {
  return stateFiles.some((file) => file === name);
}

function parseEdits(previous: readonly string[], edits: readonly string[]): string {
  const current: string[] = [];
  let done = 0;
  for (const edit of edits) {
    const [, digits, sign, line = ""] = /^(\d+)([-+]) (.*)$/.exec(edit) ?? [];
    const number = Number(digits);
    const isRemoval = sign === "-";
    const keepUntil = isRemoval ? number - 1 : number;
    if (!(keepUntil >= done && number <= previous.length))
      throw new Error(`Not in place: "${edit}"`);
    if (isRemoval && previous[number - 1] !== line) {
      throw new Error(`Line ${number} of the previous state is not "${line}"`);
    }
    current.push(...previous.slice(done, keepUntil));
    if (!isRemoval) current.push(line);
    done = number;
  }
  return joinLines([...current, ...previous.slice(done)]);
}

function splitLines(text: string): readonly string[] {
  if (text !== "" && !text.endsWith("\n")) throw new Error(`No line break at the end of "${text}"`);
  return text.split("\n").slice(0, -1);
}

function joinLines(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}
