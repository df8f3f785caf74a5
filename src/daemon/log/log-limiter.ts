import type { Clock } from "../../base/clock.ts";
import type { Severity } from "./log-format.ts";

/** What makes two lines "the same problem": the event and its reason code, whatever the subject. */
export interface Problem {
  readonly severity: Severity;
  readonly event: string;
  readonly reason: string;
}

/** Lines of one problem that were not written in the last minute. */
export interface LeftOut extends Problem {
  readonly count: number;
}

const windowMs = 60_000;
/** Lines of one problem in a minute; the rest becomes a number. */
const linesPerWindow = 10;
/** Reasons may be free text: no more than this many are distinguished. */
const maxProblems = 500;

interface Window {
  readonly problem: Problem;
  written: number;
  leftOut: number;
}

/** Lets the first lines of a problem through each minute, counts the rest and reports the count after it. */
export class LogLimiter {
  readonly #clock: Clock;
  readonly #report: (leftOut: LeftOut) => void;
  readonly #windows = new Map<string, Window>();

  constructor(clock: Clock, report: (leftOut: LeftOut) => void) {
    this.#clock = clock;
    this.#report = report;
  }

  /** Says whether the line may be written. */
  admits(problem: Problem): boolean {
    const window = this.#windowOf(problem);
    if (window.written < linesPerWindow) {
      window.written += 1;
      return true;
    }
    window.leftOut += 1;
    return false;
  }

  #windowOf(problem: Problem): Window {
    const isCrowded = this.#windows.size >= maxProblems;
    const counted = isCrowded ? { ...problem, reason: "" } : problem;
    const key = JSON.stringify([counted.severity, counted.event, counted.reason]);
    const open = this.#windows.get(key);
    if (open !== undefined) return open;
    const window: Window = { problem: counted, written: 0, leftOut: 0 };
    this.#windows.set(key, window);
    this.#clock.after(windowMs, () => this.#close(key, window));
    return window;
  }

  #close(key: string, { problem, leftOut }: Window): void {
    this.#windows.delete(key);
    if (leftOut > 0) this.#report({ ...problem, count: leftOut });
  }
}
