/** Runs a program's steps and writes their row to docs/reports/data/cluster-runs.tsv, also after a failure. */
import { basename, resolve } from "node:path";
import { type Cluster, kubectl, type LabCluster } from "./cluster.ts";
import type { ExistingCluster } from "./existing-cluster.ts";
import type { Options } from "./options.ts";
import { withoutPaths } from "./report.ts";
import { rewriteTable } from "./report-files.ts";
import { isGood, type RunCounts, type RunName, type RunRow, withRunRow } from "./run-table.ts";
import { causeOf, commitAndDate, interruption, project } from "./with-cluster.ts";

/**
 * Returns the exit status. If `body` throws, writes a row without counts and throws the same error. An interrupted run
 * has no row.
 */
export async function recordRun(
  cluster: LabCluster | ExistingCluster,
  { kubernetes }: Options<never>,
  name: RunName & { readonly kernel?: string },
  body: () => Promise<RunCounts>,
  writeRow: (row: RunRow) => void = replaceRow,
): Promise<number> {
  const begin = performance.now();
  const facts = { ...commitAndDate(), ...(await versionsOf(cluster)), ...name };
  const folders = {
    ...(kubernetes !== "" && { KUBERNETES: resolve(kubernetes) }),
    PROJECT: project,
  };
  const write = (counts: RunCounts | undefined, failure: string): void => {
    const seconds = (performance.now() - begin) / 1_000;
    const { failure: shown } = withoutPaths({ failure }, folders);
    writeRow({ ...facts, counts, failure: shown, seconds });
  };
  try {
    const counts = await body();
    write(counts, counts.failure);
    return isGood(counts) ? 0 : 1;
  } catch (error) {
    const cause = causeOf(cluster.signal, error);
    if (cause !== interruption) write(undefined, cause);
    throw error;
  }
}

function replaceRow(row: RunRow): void {
  rewriteTable("cluster-runs.tsv", (earlier) => withRunRow(earlier, row));
}

/** The versions of Kubernetes and of the nodes' kernel. */
async function versionsOf(
  cluster: LabCluster | ExistingCluster,
): Promise<{ readonly kubernetes: string; readonly kernel: string }> {
  if ("kubernetes" in cluster) return labVersions(cluster);
  const [kubernetes = "", kernel = ""] = (await nodeVersions(cluster)).split(" ");
  return { kubernetes, kernel };
}

export function labVersions({ kubernetes, kernel }: LabCluster): {
  readonly kubernetes: string;
  readonly kernel: string;
} {
  return { kubernetes: kubernetes.version, kernel: basename(kernel.modules) };
}

async function nodeVersions(cluster: Cluster): Promise<string> {
  const info = "{.items[0].status.nodeInfo";
  const path = `jsonpath=${info}.kubeletVersion} ${info}.kernelVersion}`;
  return (await kubectl(cluster, "get", "nodes", "-o", path)) ?? "";
}
