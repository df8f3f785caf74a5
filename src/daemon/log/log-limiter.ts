import type { Clock } from "../../base/clock.ts";
import type { Severity } from "./log-format.ts";

/** Lines with the same event and reason code belong to the same problem, whatever their subject. */
export interface Problem {
  readonly severity: Severity;
  readonly event: string;
  readonly reason: string;
}

/** A problem, with the number of its lines that were suppressed within one window. */
export interface LeftOut extends Problem {
  readonly count: number;
}

const windowMs = 60_000;
/** Number of lines about one problem that are written per window. Further lines are only counted. */
const linesPerWindow = 10;
/**
 * Maximum number of separately tracked problems. Reasons may be free text. Beyond this number, problems with the same
 * event share a window.
 */
const maxProblems = 500;

interface Window {
  readonly problem: Problem;
  written: number;
  leftOut: number;
}

/**
 * Admits the first lines of a problem in each window, counts the rest, and reports the count when the window ends.
 */
export class LogLimiter {
  readonly #clock: Clock;
  readonly #report: (leftOut: LeftOut) => void;
  readonly #windows = new Map<string, Window>();

  constructor(clock: Clock, report: (leftOut: LeftOut) => void) {
    this.#clock = clock;
    this.#report = report;
  }

  /** Returns whether the line may be written. */
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
