/** Reads spec results from e2e.test's output and report. */

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

/**
 * Returns the specs that ran or skipped themselves, by title. Omits specs outside the focus, which were skipped without a
 * reason.
 */
export function specResults(report: GinkgoReport): readonly SpecResult[] {
  const specs = report.flatMap(({ SpecReports }) => SpecReports ?? []);
  return specs
    .filter(({ LeafNodeType, State, Failure }) => {
      return LeafNodeType === "It" && (State !== "skipped" || Failure !== undefined);
    })
    .map(({ ContainerHierarchyTexts, LeafNodeText, State, RunTime, Failure }) => ({
      title: [...(ContainerHierarchyTexts ?? []), LeafNodeText].join(" "),
      state: stateOf(State),
      seconds: RunTime / 1e9,
      reason: (Failure?.Message ?? "").trim().split("\n")[0] ?? "",
    }))
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
