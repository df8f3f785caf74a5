/** Reads spec results from e2e.test's output and report. */
import { skipReason } from "./skip-reasons.ts";

export type SpecState = "passed" | "failed" | "skipped";

export interface SpecResult {
  /** The title without the labels that ginkgo prints after it. */
  readonly title: string;
  readonly state: SpecState;
  readonly seconds: number;
  /** Why the spec failed or skipped itself. Empty if it passed. */
  readonly reason: string;
}

/** An entry of ginkgo's JSON report. */
interface ReportedSpec {
  readonly LeafNodeType: string;
  readonly ContainerHierarchyTexts: readonly string[] | null;
  readonly LeafNodeText: string;
  readonly State: string;
  /** Duration in nanoseconds. */
  readonly RunTime: number;
  readonly Failure?: { readonly Message: string };
}

export type GinkgoReport = readonly { readonly SpecReports: readonly ReportedSpec[] | null }[];

/** Regular expressions for titles. */
export interface Selection {
  readonly focus: string;
  readonly skip: string;
}

/** Returns the specs in the focus, by title. Those that `skip` excludes, or that did not run, have a reason. */
export function specResults(
  report: GinkgoReport,
  { focus, skip }: Selection,
): readonly SpecResult[] {
  const [isFocused, isExcluded] = [new RegExp(focus), new RegExp(skip || "(?!)")];
  return report
    .flatMap(({ SpecReports }) => SpecReports ?? [])
    .filter(({ LeafNodeType }) => LeafNodeType === "It")
    .flatMap((spec) => {
      const title = [...(spec.ContainerHierarchyTexts ?? []), spec.LeafNodeText].join(" ");
      const state = stateOf(spec.State);
      // Only a spec that skipped itself has a message.
      const isUnselected = state === "skipped" && spec.Failure === undefined;
      if (isUnselected && !isFocused.test(title)) return [];
      const notRun = isExcluded.test(title) ? skipReason(title) : "the run ended early";
      const message = isUnselected ? notRun : (spec.Failure?.Message ?? "");
      const reason = message.trim().split("\n")[0] ?? "";
      return { title, state, seconds: spec.RunTime / 1e9, reason };
    })
    .sort((a, b) => (a.title < b.title ? -1 : 1));
}

/** ginkgo's other states are panicked, timedout, interrupted and aborted. */
function stateOf(state: string): SpecState {
  return state === "passed" || state === "skipped" ? state : "failed";
}

const marks: Readonly<Record<string, SpecState>> = { "•": "passed", S: "skipped" };

/** Reads ginkgo's verbose output line by line. Returns a progress line when a spec ends. */
export function progressReader(): (line: string) => string | undefined {
  let [title, done, total] = ["", 0, "?"];
  return (line) => {
    total = /^Will run (\d+) of \d+ specs/.exec(line)?.[1] ?? total;
    // The title is followed by labels: "[sig-network] Services should … [sig-network, Conformance]".
    if (/^\[sig-\S+\] /.test(line)) title = line.replace(/ \[[\w, :-]+\]$/, "");
    const end = /^(•|S) (?:\[(\w+)\] )?\[(\d+)(?:\.\d+)? seconds\]/.exec(line);
    if (end === null || title === "") return undefined;
    const [, mark = "", word, seconds] = end;
    const state = word === "SKIPPED" ? "skipped" : word === undefined ? marks[mark] : "failed";
    done += 1;
    const text = `${done}/${total} ${state} ${seconds} s  ${title}`;
    title = "";
    return text;
  };
}
