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

/** Maximum length of one failure's text. */
const maxTextLength = 300;
/** Number of lines that explain a failure without a list of failing tests. */
const lastLines = 3;

/**
 * One line for each failed test: its place, name and error, without the stack. If the output does not end with a list of
 * failing tests, for example because the run was interrupted, returns its last lines.
 */
export function readFailures(output: string): readonly string[] {
  const start = output.lastIndexOf("\n✖ failing tests:\n");
  if (start < 0) return output.split("\n").filter(isText).slice(-lastLines).map(shorten);
  const [, ...tests] = output.slice(start).split(/^test at /m);
  const canceled = tests.filter((test) =>
    test.includes("did not finish before its parent and was"),
  );
  const failed = tests.filter((test) => !canceled.includes(test)).map(failureLine);
  return canceled.length === 0 ? failed : [...failed, `${canceled.length} canceled`];
}

/** `text` begins with the place. The next line is the test's name, and the error follows. */
function failureLine(text: string): string {
  const [place = "", title = "", ...rest] = text.split("\n");
  const stack = rest.findIndex((line) => /^ +at /.test(line));
  const error = rest.slice(0, stack < 0 ? undefined : stack).join(" ");
  return `${place}: ${title.replace(/^✖ /, "").replace(/ \([\d.]+ms\)$/, "")}: ${shorten(error)}`;
}

function shorten(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= maxTextLength ? line : `${line.slice(0, maxTextLength)}…`;
}

function isText(line: string): boolean {
  return line.trim() !== "";
}

/** The skipped tests with their reasons: `name: reason`. */
export function readSkippedTests(output: string): readonly string[] {
  const lines = output.matchAll(/^ *﹣ (.*) \([\d.]+ms\) # (.*)$/gm);
  return [...lines].map(([, name, reason]) => `${name}: ${reason}`);
}
