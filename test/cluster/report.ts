/** Writes the report: a row for each selection of specs, a column for each proxy and mode, and a separate table of specs. */
import type { RequestCount } from "./audit.ts";
import type { SpecResult } from "./ginkgo.ts";
import { latencySentences } from "./latency-text.ts";
import type { ManifestResult } from "./manifests.ts";
import { type Row, tabSeparated } from "./result-table.ts";
import { unusedReason } from "./unused-rights.ts";

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

/** Replaces this machine's paths in messages. `folders` maps each replacement name to a path. */
export function withoutPaths<T>(results: T, folders: Readonly<Record<string, string>>): T {
  const text = Object.entries(folders).reduce(
    (all, [name, folder]) => all.replaceAll(folder, name),
    JSON.stringify(results),
  );
  return JSON.parse(text) as T;
}

function columnOf({ proxy, mode }: Run): string {
  return `${proxy} ${mode}`;
}

export function countOf({ specs }: Run, state: SpecResult["state"]): number {
  return specs.filter((spec) => spec.state === state).length;
}

const lead = `# Kubernetes' own network tests

\`make conformance\` writes this page from \`e2e.test\` runs on nodes with real kubelets ([how](../../test/cluster/README.md)).
[data/conformance.tsv](data/conformance.tsv) lists every spec, with a reason if it failed or was skipped. \`SKIP\` excludes
serial and disruptive specs, which can affect others, affinity timeout specs, which sleep for minutes, and rolling update
specs, which take 15 minutes. kube-ipvs runs as a DaemonSet, kube-proxy as a program. Commits 17313ee4, 2feaed53 and b90be06e
were rebased before they were merged, so this repository does not contain them.

`;

/** `latency` is the table of network programming latency. */
export function reportText(runs: readonly Run[], latency: string): string {
  const versions = (["kubernetes", "kernel"] as const).map((name) =>
    [...new Set(runs.map((run) => run[name]))].join(", "),
  );
  const text = `The runs used Kubernetes ${versions[0]} and the lab kernel ${versions[1]}.`;
  return `${lead}${text}\n\n${suiteTable(runs)}\n${failures(runs)}${tail}${latencySentences(latency)}\n`;
}

const tail = `
The workflow [conformance.yml](../../.github/workflows/conformance.yml) has not run yet.

[data/conformance-requests.tsv](data/conformance-requests.tsv) counts the requests in the API server's audit log, in all runs
of each proxy and mode. A watch is counted when it ends. \`granted\` means allowed by a ClusterRole of the proxy's user or of
its groups, and \`reason\` says why an unused permission is granted.
[data/conformance-manifests.tsv](data/conformance-manifests.tsv) has the answers to \`kubectl apply --server-side --dry-run=server\`.

## Other runs on such clusters

- [Control plane faults and reboots](data/cluster-faults.tsv)
- [Migration, upgrade, the guides' commands and EndpointSlices](data/cluster-runs.tsv)
- [API requests and network programming latency](data/cluster-latency.tsv)

Network programming latency is the time from a Pod's change of readiness until the proxy has applied it, as the proxy records
it. It includes the EndpointSlice controller's time. p50 and p99 are interpolated within the histogram bucket in parentheses.
The two runs below ignore changes that were not recorded 5 s after the last one. Newer runs wait 30 s:

`;

/** A table of the API server's answers to each manifest. */
export function manifestTable(runs: readonly Run[]): string {
  const results = runs.findLast(({ manifests }) => manifests !== undefined)?.manifests ?? [];
  const rows = results.map(({ name, failure }) => [name, failure === "" ? "yes" : "no", failure]);
  return tableOf([["in deploy", "accepted", "message"], ...rows]);
}

/** A table of the requests in all runs of each proxy and mode. Empty reasons belong to used permissions. */
export function requestTable(runs: readonly Run[]): string {
  const rows = [...Map.groupBy(runs, columnOf).values()].flatMap((group) => {
    const [{ proxy, mode }] = group as [Run];
    const requests = group.flatMap((run) => run.requests ?? []);
    const rights = Map.groupBy(requests, ({ resource, verb }) => `${resource}\t${verb}`);
    return [...rights]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([right, counts]) => {
        const [resource = "", verb = ""] = right.split("\t");
        const count = counts.reduce((sum, one) => sum + one.count, 0);
        const forbidden = counts.reduce((sum, one) => sum + one.forbidden, 0);
        const isGranted = counts.some((one) => one.isGranted);
        const reason = count === 0 ? unusedReason(proxy, resource, verb) : "";
        return [proxy, mode, resource, verb, count, forbidden, isGranted ? "yes" : "no", reason];
      });
  });
  const head = ["proxy", "mode", "resource", "verb", "requests", "forbidden", "granted", "reason"];
  return tableOf([head, ...rows]);
}

function tableOf(rows: readonly Row[]): string {
  return tabSeparated(rows)
    .map((line) => `${line}\n`)
    .join("");
}

/** Proxies side by side, kube-proxy first. */
function suiteTable(runs: readonly Run[]): string {
  const columns = [...new Set(runs.map(columnOf))].sort().reverse();
  const suites = [...Map.groupBy(runs, specsOf)].map(([specs, group]) => [
    specs,
    ...columns.map((column) => {
      const run = group.find((one) => columnOf(one) === column);
      return run === undefined ? "" : resultText(run);
    }),
  ]);
  const rows = [["specs", ...columns], ["---", ...columns.map(() => "---")], ...suites];
  return rows.map((cells) => `| ${cells.join(" | ")} |\n`).join("");
}

function resultText(run: Run): string {
  const states = ["passed", "failed", "skipped"] as const;
  const counts = states
    .map((state) => ({ state, count: countOf(run, state) }))
    .filter(({ count }) => count > 0)
    .map(({ state, count }) => `${count} ${state}`);
  const seconds = run.specs.reduce((sum, spec) => sum + spec.seconds, 0);
  return `${counts.join(", ")} in ${Math.round(seconds)} s (${run.commit}, ${run.date})`;
}

/** A line for each failed spec. */
function failures(runs: readonly Run[]): string {
  const lines = runs.flatMap((run, index) =>
    run.specs
      .filter(({ state }) => state === "failed")
      .map(({ title, reason }) => {
        const hasPassed = runs
          .slice(index + 1)
          .filter((later) => columnOf(later) === columnOf(run))
          .some(({ specs }) => specs.some((one) => one.title === title && one.state === "passed"));
        const end = hasPassed ? " It passed when repeated." : "";
        return `- ${columnOf(run)} failed \`${title}\`: ${reason}${end}\n`;
      }),
  );
  return lines.join("");
}

function specsOf({ options }: Run): string {
  const code = options === "" ? [] : [`\`${options.replaceAll("|", String.raw`\|`)}\``];
  return (options.includes("FOCUS=") ? code : ["Services", ...code]).join(" ");
}

/** The last result of each spec. A spec that never ran is shown as skipped. */
function specsToShow(runs: readonly Run[]): readonly SpecResult[] {
  const specs = runs.flatMap((run) => run.specs);
  const wasSkipped = ({ state }: SpecResult): boolean => state === "skipped";
  return [...specs.filter(wasSkipped), ...specs.filter((spec) => !wasSkipped(spec))];
}

/**
 * A table with a row for each spec, and three columns for each proxy and mode. Cells are empty for specs that were not
 * run.
 */
export function specTable(runs: readonly Run[]): string {
  const titles = [...new Set(runs.flatMap(({ specs }) => specs.map(({ title }) => title)))].sort();
  const columns = [...Map.groupBy(runs, columnOf)].map(([name, group]) => ({
    name,
    specs: new Map(specsToShow(group).map((spec) => [spec.title, spec])),
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
  return tableOf([["spec", ...head], ...rows]);
}
