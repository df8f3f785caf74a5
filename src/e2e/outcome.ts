export type Result = "ok" | "failed" | "not applicable";

/** A check's result, with one sentence about what was observed or why it does not apply. */
export interface Outcome {
  readonly result: Result;
  readonly detail: string;
}

export interface NamedOutcome extends Outcome {
  readonly check: string;
}

export function ok(detail: string): Outcome {
  return { result: "ok", detail };
}

export function notApplicable(detail: string): Outcome {
  return { result: "not applicable", detail };
}

const shownProblems = 3;

/** Ok if there are no problems. Otherwise names the first ones. */
export function judged(problems: readonly string[], detail: string): Outcome {
  if (problems.length === 0) return ok(detail);
  const shown = problems.slice(0, shownProblems).join("; ");
  const rest = problems.length - shownProblems;
  return { result: "failed", detail: rest > 0 ? `${shown}; and ${rest} more` : shown };
}
