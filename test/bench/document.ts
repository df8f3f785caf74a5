/** Writes docs/reports/benchmarks.md, its data file and docs/reports/plots/*.svg from the results. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import { join } from "node:path";
import { findLabKernel } from "../lab/lab-kernel.ts";
import { type Plot, plotSvg } from "./plot.ts";
import {
  type CaseResult,
  type Growth,
  type Row,
  relativeTo,
  summarize,
  verdictOf,
} from "./rows.ts";
import { loadText, number, quantity } from "./table.ts";

const project: string = join(import.meta.dirname, "../..");
const plotsFolder: string = join(project, "docs/reports/plots");

/** Version of the program in this tree. */
export const version: string = (
  JSON.parse(readFileSync(join(project, "package.json"), "utf8")) as { readonly version: string }
).version;

const reports: string = join(project, "docs/reports");
const nfTables = "nf_tables";
const targetsHeading = "\n## Targets\n";
const growthHeading = "\n## Growth\n";
const rulesHeading = "\n## Rules with nf_tables\n";

/** Cases about rules run on another kernel than the other cases, so a run updates either these results or the others. */
const isAboutRules = (name: string): boolean => name.startsWith("rules-");

/** Replaces the figures of the measured cases. The others stay. */
export function writeDocument(results: readonly CaseResult[]): void {
  const rules = results.filter(({ name }) => isAboutRules(name));
  const others = results.filter(({ name }) => !isAboutRules(name));
  const plots = plotsOf(others.flatMap(({ growth }) => growth));
  mkdirSync(plotsFolder, { recursive: true });
  for (const { file, plot } of plots) writeFileSync(join(plotsFolder, file), plotSvg(plot));
  const data = join(reports, "data/benchmarks.tsv");
  const lines = mergedLines(readFileSync(data, "utf8").split("\n").slice(1, -1), results);
  writeFileSync(data, [dataHead.join("\t"), ...lines].map((line) => `${line}\n`).join(""));
  const page = join(reports, "benchmarks.md");
  const [front = "", section = ""] = readFileSync(page, "utf8").split(rulesHeading);
  const [oldHead = ""] = front.split(targetsHeading);
  const [, oldPlots = ""] = front.split(growthHeading);
  const rows = lines.filter((line) => !isAboutRules(line)).map((line) => line.split("\t"));
  const names = new Set(others.map(({ name }) => name));
  const isWhole = rows.every(([name = ""]) => names.has(name));
  const images = plots.map(({ file, plot }) => `![${plot.title}](plots/${file})\n`).join("\n");
  const parts = [
    (isWhole ? head(others) : oldHead).replace(/^- \*\*Result\*\*: .*$/m, resultLine(rows)),
    targetsText(rows),
    growthHeading + (plots.length === 0 ? oldPlots.trimEnd() : `\n${images}`),
    rulesHeading,
    (rules.length === 0 ? section : rulesText(rules)).trim(),
  ];
  writeFileSync(page, `${parts.map((part) => part.trim()).join("\n\n")}\n`);
}

/** The lines of the data file, in which the lines of measured cases replace their earlier ones. */
function mergedLines(earlier: readonly string[], results: readonly CaseResult[]): string[] {
  const nameOf = (line: string): string => line.slice(0, line.indexOf("\t"));
  const lines = Map.groupBy(earlier, nameOf);
  for (const result of results) lines.set(result.name, dataLines(result));
  return [...lines.values()].flat();
}

function resultLine(rows: readonly (readonly string[])[]): string {
  const count = (verdict: string): number => rows.filter((row) => row[5] === verdict).length;
  return `- **Result**: ${count("pass")} within target, ${count("missed")} not.`;
}

function head(results: readonly CaseResult[]): string {
  const loads = results.flatMap(({ load }) => load);
  const dates = results.map(({ startedAt }) => startedAt.slice(0, 16)).sort();
  return `# Benchmarks

\`make bench\` writes this page, which compares every measurement with its target. [test/bench/README.md](../../test/bench/README.md) explains the
cases and how they are measured from outside the daemon.

- **Where**: user-mode Linux ${labVersion()} on one processor. The API server runs outside it, on another processor. The machine
  has ${cpus().length} × ${cpus()[0]?.model.trim() ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GB, Linux ${release().split("-")[0]}. A system call or a fork costs several times
  as much as on a node, so compare ratios and growth, not absolute times.
- **Version**: ${[...new Set(results.map((result) => result.version))].sort().join(" and ")}.
${notesOf(results)}- **When**: ${dates[0] ?? "never"} to ${dates.at(-1) ?? "never"} UTC; machine load average ${loadText(loads)}
  (up to 2 from the bench itself; other work made every figure worse).
- **Result**: see below.
`;
}

/** A table of the data file's lines that have a target. Counts that are correct are omitted. */
function targetsText(rows: readonly (readonly string[])[]): string {
  const lines = rows
    .filter(([, , , target, measured = "", verdict]) => {
      return target !== "" && (verdict === "missed" || !/^[0-9,]+$/.test(measured));
    })
    .map(([name, what, , target, measured, verdict]) => {
      const shown = verdict === "missed" ? "**missed**" : verdict;
      return `| ${[name, what, target, measured, shown].join(" | ")} |`;
    });
  return `${targetsHeading}
[data/benchmarks.tsv](data/benchmarks.tsv) has every figure of every case. Counts that are as
expected, such as the numbers of messages, are only in that file. \`make bench CASES=NAME\` repeats a case.

| case | figure | target | measured | result |
|---|---|---|--:|---|
${lines.join("\n")}
`;
}

function labVersion(): string {
  try {
    return execFileSync(
      findLabKernel(process.env["LAB_KERNEL"])?.binary ?? "linux.uml",
      ["--version"],
      {
        encoding: "utf8",
      },
    ).trim();
  } catch {
    return "";
  }
}

/** The measured peers, and the aborted cases. */
function notesOf(results: readonly CaseResult[]): string {
  const peers = new Set(results.flatMap(({ peer }) => peer ?? []));
  const aborted = results.flatMap(({ name, failure }) =>
    failure === undefined ? [] : `- **Aborted**: ${name}, ${failure.split("\n")[0]}.\n`,
  );
  return [...[...peers].map((peer) => `- **Peer**: ${peer}.\n`), ...aborted].join("");
}

/** One line for each figure, with nf_tables' median and its ratios to the other writers within rounds. */
function rulesText(results: readonly CaseResult[]): string {
  const all = results.flatMap(({ rows }) => rows);
  const others = [...new Set(all.map(({ subject }) => subject))].filter((one) => one !== nfTables);
  const figures = [...new Set(all.map(({ what }) => what))].filter(
    (what) => !what.includes(relativeTo),
  );
  const cellOf = (what: string): string => {
    const row = all.find((one) => one.subject === nfTables && one.what === what);
    if (row === undefined) return "";
    const text = what.includes(relativeTo) ? number(row.value) : quantity(row.value, row.unit);
    return verdictOf(row) === "MISS" ? `**${text}**` : text;
  };
  const lines = figures.map((what) => {
    const ratios = others.map((other) => what + relativeTo + other);
    const targets = [what, ...ratios].map((one) => all.find((row) => row.what === one)?.target);
    const target = targets.find((one) => one !== undefined)?.text ?? "";
    return `| ${[what, target, ...[what, ...ratios].map(cellOf)].join(" | ")} |`;
  });
  const dates = results.map(({ startedAt }) => startedAt.slice(0, 16).replace("T", " ")).sort();
  const rounds = Math.min(...all.map(({ samples }) => samples?.length ?? 0));
  const heads = ["figure", "target", nfTables, ...others.map((one) => `÷ ${one}`)];
  return `
Linux ${labVersion()}, ${[...new Set([dates[0], dates.at(-1)])].join(" to ")} UTC, load average ${loadText(results.flatMap(({ load }) => load))}. In
each of ${rounds} rounds, each writer runs in a new lab kernel. The column
nf_tables shows medians. The last columns show medians of nf_tables' value divided by the other
writer's in the same round. **Bold** values miss their target.

| ${heads.join(" | ")} |
|---|---|${heads
    .slice(2)
    .map(() => "--:|")
    .join("")}
${lines.join("\n")}
`;
}

const dataHead = [
  ...["case", "figure", "subject", "target", "measured", "verdict"],
  ...["median / p95", "least – most", "messages", "processes", "resident", "load"],
];

function dataLines({ name, rows, load }: CaseResult): string[] {
  return rows.map((row) => [name, ...documentCells(row), loadText(load)].join("\t"));
}

function documentCells(row: Row): readonly string[] {
  const summary = summarize(row.samples);
  const { unit, messages, processes, residentMb } = row;
  const verdict = verdictOf(row);
  return [
    row.what,
    row.subject,
    row.target?.text ?? "",
    quantity(row.value, unit),
    verdict === "MISS" ? "missed" : verdict,
    summary === undefined ? "" : `${number(summary.median)} / ${quantity(summary.p95, unit)}`,
    summary === undefined ? "" : `${number(summary.least)} – ${quantity(summary.most, unit)}`,
    messages === undefined ? "" : number(messages),
    processes === undefined ? "" : number(processes),
    residentMb === undefined ? "" : `${number(residentMb)} MB`,
  ];
}

/** Empty unless at least two sizes have this figure, which earlier results lack. */
function verificationPlot(ours: readonly Growth[], xLabel: string): readonly PlotFile[] {
  const points = ours
    .flatMap(({ services, verificationCpuMs }): [number, number][] =>
      verificationCpuMs === undefined ? [] : [[services, verificationCpuMs]],
    )
    .sort(([a], [b]) => a - b);
  if (points.length < 2) return [];
  const plot = {
    title: "CPU time of one verification that finds nothing to do",
    xLabel,
    yLabel: "milliseconds of CPU",
    series: [{ name: "mean of three or more", points }],
    limit: { y: 600, text: "target: 2% of a processor, one every 30 s" },
  };
  return [{ file: "verification-cpu.svg", plot }];
}

interface PlotFile {
  readonly file: string;
  readonly plot: Plot;
}

/** Plots of cost by number of Services. Empty until two sizes have been measured. */
function plotsOf(growth: readonly Growth[]): readonly PlotFile[] {
  const ours = growth.filter(({ subject }) => subject === "kube-ipvs");
  if (ours.length < 2) return [];
  const xLabel = "Services, 5 endpoints each";
  const curve = (name: string, value: (one: Growth) => number): Plot["series"][number] => ({
    name,
    points: ours
      .map((one): [number, number] => [one.services, value(one)])
      .sort(([a], [b]) => a - b),
  });
  return [
    {
      file: "change-cpu.svg",
      plot: {
        title: "Daemon CPU time for one changed endpoint",
        xLabel,
        yLabel: "milliseconds of CPU",
        series: [curve("mean of all changes", ({ changeCpuMs }) => changeCpuMs)],
        limit: { y: 5, text: "target: 5 ms" },
      },
    },
    {
      file: "change-latency.svg",
      plot: {
        title: "From the API server's write to the kernel change",
        xLabel,
        yLabel: "milliseconds",
        series: [
          curve("median", ({ changeP50Ms }) => changeP50Ms),
          curve("99th percentile", ({ changeP99Ms }) => changeP99Ms),
        ],
        limit: { y: 50, text: "target: 99% within 50 ms" },
      },
    },
    {
      file: "first-sync.svg",
      plot: {
        title: "First sync with an empty kernel, objects already read",
        xLabel,
        yLabel: "seconds",
        series: [curve("all in the kernel", ({ firstSyncMs }) => firstSyncMs / 1_000)],
      },
    },
    ...verificationPlot(ours, xLabel),
    {
      file: "memory.svg",
      plot: {
        title: "Resident memory of the daemon",
        xLabel,
        yLabel: "MB",
        series: [
          curve("after all changes", ({ residentMb }) => residentMb),
          curve("peak", ({ peakMb }) => peakMb),
        ],
      },
    },
  ];
}
