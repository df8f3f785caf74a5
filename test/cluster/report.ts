/** Writes the report: a row for each tested proxy, mode and selection of specs, and a separate table of specs. */
import type { RequestCount } from "./audit.ts";
import type { SpecResult } from "./ginkgo.ts";
import type { ManifestResult } from "./manifests.ts";

export interface Run {
  readonly proxy: string;
  readonly mode: string;
  readonly commit: string;
  readonly date: string;
  readonly kubernetes: string;
  readonly kernel: string;
  /** FOCUS, SKIP, NODES and FAMILIES, unless they have their defaults (two nodes and IPv4). */
  readonly options: string;
  readonly specs: readonly SpecResult[];
  /** Requests from all nodes. Undefined for earlier runs. */
  readonly requests?: readonly RequestCount[];
  /** Present for runs with kube-ipvs. Undefined for earlier runs. */
  readonly manifests?: readonly ManifestResult[];
}

/**
 * Returns the runs with `run`. It replaces an earlier run of the same proxy and mode if that run selected the same specs,
 * or if `run` contains all specs of that run.
 */
export function withRun(runs: readonly Run[], run: Run): readonly Run[] {
  const titles = new Set(titlesRun(run));
  const isReplaced = (one: Run): boolean =>
    columnOf(one) === columnOf(run) &&
    (one.options === run.options || titlesRun(one).every((title) => titles.has(title)));
  return [...runs.filter((one) => !isReplaced(one)), run];
}

function titlesRun({ specs }: Run): readonly string[] {
  return specs.filter(({ state }) => state !== "skipped").map(({ title }) => title);
}

/** Replaces this machine's paths in spec messages. `folders` maps each replacement name to a path. */
export function withoutPaths(run: Run, folders: Readonly<Record<string, string>>): Run {
  const text = Object.entries(folders).reduce(
    (all, [name, folder]) => all.replaceAll(folder, name),
    JSON.stringify(run),
  );
  return JSON.parse(text) as Run;
}

function columnOf({ proxy, mode }: Run): string {
  return `${proxy} ${mode}`;
}

export function countOf({ specs }: Run, state: SpecResult["state"]): number {
  return specs.filter((spec) => spec.state === state).length;
}

const lead = `# Kubernetes' own network tests

\`make conformance\` writes this page from \`e2e.test\` runs on nodes with real kubelets ([how](../../test/cluster/README.md)).
[data/conformance.tsv](data/conformance.tsv) lists every spec. kube-ipvs runs as a DaemonSet, kube-proxy as a program.

| proxy | mode | specs | passed | failed | skipped | seconds | commit | date | Kubernetes | kernel |
|---|---|---|---:|---:|---:|---:|---|---|---|---|
`;

export function reportText(runs: readonly Run[]): string {
  return `${lead}${runs.map(runRow).join("")}${tail}`;
}

const tail = `
[data/conformance-requests.tsv](data/conformance-requests.tsv) counts the requests in the API server's audit log, in the last
run of each proxy and mode. A watch is counted when it ends. \`granted\` means allowed by a ClusterRole of the proxy's user.
[data/conformance-manifests.tsv](data/conformance-manifests.tsv) has the answers to \`kubectl apply --server-side --dry-run=server\`.
`;

/** A table of the API server's answers to each manifest. */
export function manifestTable(runs: readonly Run[]): string {
  const results = runs.findLast(({ manifests }) => manifests !== undefined)?.manifests ?? [];
  const rows = results.map(({ name, failure }) => [name, failure === "" ? "yes" : "no", failure]);
  return tabSeparated([["in deploy", "accepted", "message"], ...rows]);
}

/** A table of the requests in the last run of each proxy and mode. */
export function requestTable(runs: readonly Run[]): string {
  const last = new Map(
    runs.filter(({ requests }) => requests !== undefined).map((run) => [columnOf(run), run]),
  );
  const rows = [...last.values()].flatMap(({ proxy, mode, requests = [] }) =>
    requests.map(({ resource, verb, count, forbidden, isGranted }) => {
      return [proxy, mode, resource, verb, count, forbidden, isGranted ? "yes" : "no"];
    }),
  );
  const head = ["proxy", "mode", "resource", "verb", "requests", "forbidden", "granted"];
  return tabSeparated([head, ...rows]);
}

function tabSeparated(rows: readonly (readonly (string | number)[])[]): string {
  return rows
    .map((cells) => `${cells.map((cell) => String(cell).replaceAll("\t", " ")).join("\t")}\n`)
    .join("");
}

function runRow(run: Run): string {
  const seconds = run.specs.reduce((sum, spec) => sum + spec.seconds, 0);
  const counts = (["passed", "failed", "skipped"] as const).map((state) => countOf(run, state));
  const cells = [
    ...[run.proxy, run.mode, specsOf(run), ...counts, Math.round(seconds)],
    ...[run.commit, run.date, run.kubernetes, run.kernel],
  ];
  return `| ${cells.join(" | ")} |\n`;
}

function specsOf({ options }: Run): string {
  const code = options === "" ? [] : [`\`${options.replaceAll("|", String.raw`\|`)}\``];
  return (options.includes("FOCUS=") ? code : ["Services", ...code]).join(" ");
}

/**
 * A table with a row for each spec, and three columns for each proxy and mode. Cells are empty for specs that were not
 * run.
 */
export function specTable(runs: readonly Run[]): string {
  const titles = [...new Set(runs.flatMap(({ specs }) => specs.map(({ title }) => title)))].sort();
  const columns = [...Map.groupBy(runs, columnOf)].map(([name, group]) => ({
    name,
    specs: new Map(group.flatMap(({ specs }) => specs.map((spec) => [spec.title, spec] as const))),
  }));
  const head = columns.flatMap(({ name }) => [name, "seconds", "reason"]);
  const rows = titles.map((title) => {
    const cells = columns.flatMap(({ specs }) => {
      const spec = specs.get(title);
      if (spec === undefined) return ["", "", ""];
      return [spec.state, spec.seconds.toFixed(0), spec.reason];
    });
    return [title, ...cells];
  });
  return tabSeparated([["spec", ...head], ...rows]);
}
