/** The report: a row for each proxy and mode that ran, and a table of specs beside it. */
import type { SpecResult } from "./ginkgo.ts";

export interface Run {
  readonly proxy: string;
  readonly mode: string;
  readonly commit: string;
  readonly date: string;
  readonly kubernetes: string;
  readonly kernel: string;
  /** FOCUS and SKIP, where they are not the defaults. */
  readonly options: string;
  readonly specs: readonly SpecResult[];
}

/** The runs with `run` in place of the earlier one of the same proxy and mode. */
export function withRun(runs: readonly Run[], run: Run): readonly Run[] {
  return [...runs.filter(({ proxy, mode }) => proxy !== run.proxy || mode !== run.mode), run];
}

export function countOf({ specs }: Run, state: SpecResult["state"]): number {
  return specs.filter((spec) => spec.state === state).length;
}

const lead = `# Kubernetes' own network tests

Written by \`make conformance\`: \`e2e.test\` against two nodes with real kubelets ([how](../../test/cluster/README.md)).
[Every spec](data/conformance.tsv). kube-ipvs runs as a DaemonSet, kube-proxy as a program.

| proxy | mode | passed | failed | skipped | seconds | commit | date | Kubernetes | kernel |
|---|---|---:|---:|---:|---:|---|---|---|---|
`;

export function reportText(runs: readonly Run[]): string {
  return `${lead}${runs.map(runRow).join("")}`;
}

function runRow(run: Run): string {
  const seconds = run.specs.reduce((sum, spec) => sum + spec.seconds, 0);
  const counts = (["passed", "failed", "skipped"] as const).map((state) => countOf(run, state));
  const cells = [
    ...[run.proxy, run.mode, ...counts, Math.round(seconds)],
    ...[run.commit, run.date, run.kubernetes, run.kernel],
  ];
  return `| ${cells.join(" | ")} |\n`;
}

/** A row for each spec, with three columns for each run. Specs that a run did not select are empty there. */
export function specTable(runs: readonly Run[]): string {
  const titles = [...new Set(runs.flatMap(({ specs }) => specs.map(({ title }) => title)))].sort();
  const head = runs.flatMap(({ proxy, mode }) => [`${proxy} ${mode}`, "seconds", "reason"]);
  const rows = titles.map((title) => {
    const cells = runs.flatMap(({ specs }) => {
      const spec = specs.find((one) => one.title === title);
      if (spec === undefined) return ["", "", ""];
      return [spec.state, spec.seconds.toFixed(0), spec.reason.replaceAll("\t", " ")];
    });
    return [title, ...cells];
  });
  return [["spec", ...head], ...rows].map((cells) => `${cells.join("\t")}\n`).join("");
}
