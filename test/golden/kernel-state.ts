/** The kernel state as text in the recorded format, and the differences between two states. Pure. */

/** The recorded files of a step, without `.txt`. */
export const stateFiles = [
  "ipvs",
  "ipset",
  "iptables",
  "ip6tables",
  "addresses",
  "link",
  "sysctl",
  "health",
] as const;

export type StateFile = (typeof stateFiles)[number];

/** `health` exists only if a Service in the scenario has a health-check node port. */
export type KernelState = { readonly [File in StateFile]?: string };

/** One line that only one side has. */
export interface Difference {
  readonly file: StateFile;
  readonly side: "missing" | "unexpected";
  readonly line: string;
}

/** Files in which line order matters, because they contain chains of rules. Other files are sorted. */
const orderedFiles: ReadonlySet<StateFile> = new Set(["iptables", "ip6tables"]);

/** Empty if the states are identical byte for byte. */
export function compareStates(recorded: KernelState, actual: KernelState): readonly Difference[] {
  return stateFiles.flatMap((file) => compareFile(file, recorded[file] ?? "", actual[file] ?? ""));
}

function compareFile(file: StateFile, recorded: string, actual: string): readonly Difference[] {
  if (recorded === actual) return [];
  const missing = linesBeyond(recorded, actual);
  const unexpected = linesBeyond(actual, recorded);
  if (missing.length + unexpected.length === 0) return [orderDifference(file, recorded, actual)];
  return [
    ...missing.map((line): Difference => ({ file, side: "missing", line })),
    ...unexpected.map((line): Difference => ({ file, side: "unexpected", line })),
  ];
}

/** Lines that `text` contains more often than `other`. */
function linesBeyond(text: string, other: string): readonly string[] {
  const counts = new Map<string, number>();
  for (const line of other.split("\n")) counts.set(line, (counts.get(line) ?? 0) + 1);
  return text.split("\n").filter((line) => {
    const left = counts.get(line) ?? 0;
    counts.set(line, left - 1);
    return left <= 0;
  });
}

/** The difference between files with the same lines in a different order. */
function orderDifference(file: StateFile, recorded: string, actual: string): Difference {
  const others = actual.split("\n");
  const line = recorded.split("\n").find((text, index) => text !== others[index]) ?? "";
  const why = orderedFiles.has(file) ? "not in its place" : "not sorted";
  return { file, side: "missing", line: `${line} (${why})` };
}

export function differenceText({ file, side, line }: Difference): string {
  return `${file}: ${side === "missing" ? "-" : "+"} ${line}`;
}
