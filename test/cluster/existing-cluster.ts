/** The cluster in this machine's KUBECONFIG, such as a kind cluster. Its nodes are reachable from this machine. */
import { execFileSync } from "node:child_process";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Cluster } from "./cluster.ts";
import { runShell } from "./operator.ts";
import { type Option, type Options, text } from "./options.ts";

/**
 * `--api-server URL` uses an existing cluster whose nodes reach the API server at this URL. With `--load COMMAND`,
 * `COMMAND ARCHIVE` loads an image into all nodes.
 */
export const existingClusterOptions: Readonly<Record<"api-server" | "load", Option>> = {
  "api-server": text(),
  load: text(),
};

export interface ExistingCluster extends Cluster {
  loadImage(archive: string): Promise<void>;
}

export function existingCluster(
  folder: string,
  options: Options<"api-server" | "load">,
  signal: AbortSignal,
): ExistingCluster {
  const kubeconfig = process.env["KUBECONFIG"] ?? join(homedir(), ".kube/config");
  const kubectl = execFileSync("sh", ["-c", "command -v kubectl"], { encoding: "utf8" }).trim();
  const listed = execFileSync(
    kubectl,
    [`--kubeconfig=${kubeconfig}`, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"],
    { encoding: "utf8" },
  );
  return {
    ...{ folder, kubeconfig, kubectl, signal, apiServer: options["api-server"] },
    nodeNames: listed.split(" ").toSorted(),
    inNetwork: (...argv) => argv,
    loadImage: (archive) => runShell(["sh", "-ec", `${options.load} '${archive}'`], { signal }),
  };
}
