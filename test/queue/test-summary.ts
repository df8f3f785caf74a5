/** Parses the closing lines of `node --test` output. */
export interface TestSummary {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** Undefined if the output has no such lines because the run was interrupted. */
export function parseTestSummary(output: string): TestSummary | undefined {
  const count = (word: string): number | undefined => {
    const match = new RegExp(`^ℹ ${word} (\\d+)$`, "m").exec(output);
    return match === null ? undefined : Number(match[1]);
  };
  const [passed, failed] = [count("pass"), count("fail")];
  if (passed === undefined || failed === undefined) return undefined;
  return { passed, failed, skipped: (count("skipped") ?? 0) + (count("todo") ?? 0) };
}

/** Lines in which a suite reports counts and measurements: its own `name: …` lines, and test diagnostics. */
export function readNotes(output: string): readonly string[] {
  const diagnostics = output.split("\n").filter((line) => /^ +ℹ /.test(line));
  const own = output.split("\n").filter((line) => /^[a-z-]+: \S/.test(line));
  return [...own, ...diagnostics.map((line) => line.trim().replace(/^ℹ /, ""))];
}

/** The failures that `node --test` repeats at the end. Empty if no test failed or the run was interrupted. */
export function readFailingTests(output: string): string {
  const start = output.lastIndexOf("\n✖ failing tests:\n");
  return start < 0 ? "" : output.slice(start).trim();
}

/** The skipped tests with their reasons: `name: reason`. */
export function readSkippedTests(output: string): readonly string[] {
  const lines = output.matchAll(/^ *﹣ (.*) \([\d.]+ms\) # (.*)$/gm);
  return [...lines].map(([, name, reason]) => `${name}: ${reason}`);
}
