/** The cluster that a run uses: folders, programs, and kubectl as its administrator. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { LabKernel } from "../lab/lab-kernel.ts";
import type { KubernetesFolder } from "./kubernetes-folder.ts";
import type { Network } from "./network.ts";
import type { Programs } from "./programs.ts";

/** Enough for a list of all objects. */
const maxOutputBytes = 64 << 20;

/** An existing cluster, or one that the run creates. */
export interface Cluster {
  /** Logs, and files that the run writes. */
  readonly folder: string;
  /** Path of the administrator's kubeconfig. */
  readonly kubeconfig: string;
  /** The path of kubectl. */
  readonly kubectl: string;
  /** The API server's URL as the nodes know it. */
  readonly apiServer: string;
  /** Sorted. */
  readonly nodeNames: readonly string[];
  /** Arguments that run a program where the nodes' addresses are reachable. */
  readonly inNetwork: (...argv: readonly string[]) => readonly string[];
  /** Aborted when the run is interrupted or ends, or when a program exits unexpectedly. */
  readonly signal: AbortSignal;
}

/** A cluster whose control plane and nodes run on this machine. */
export interface LabCluster extends Cluster {
  /** A folder in memory, for etcd. */
  readonly memoryFolder: string;
  /** Unpacked Debian packages. */
  readonly packages: string;
  readonly kubernetes: KubernetesFolder;
  readonly kernel: LabKernel;
  readonly network: Network;
  readonly programs: Programs;
}

/** The path of a file that credentials.ts writes. */
export function credential({ folder }: Pick<Cluster, "folder">, file: string): string {
  return join(folder, "credentials", file);
}

/** Arguments that start kubectl. */
export function kubectlArguments(
  { kubectl: program, kubeconfig }: Cluster,
  ...args: readonly string[]
): readonly string[] {
  return [program, `--kubeconfig=${kubeconfig}`, ...args];
}

/** kubectl's output. Undefined if it fails. */
export async function kubectl(
  cluster: Cluster,
  ...args: readonly string[]
): Promise<string | undefined> {
  const { output, failure } = await tryKubectl(cluster, ...args);
  return failure === "" ? output : undefined;
}

/** Returns kubectl's output and the reason for its failure, which is empty if it succeeded. */
export function tryKubectl(
  cluster: Cluster,
  ...args: readonly string[]
): Promise<{ readonly output: string; readonly failure: string }> {
  const [program = "", ...rest] = cluster.inNetwork(...kubectlArguments(cluster, ...args));
  const { promise, resolve } = Promise.withResolvers<{ output: string; failure: string }>();
  execFile(
    program,
    rest,
    { signal: cluster.signal, maxBuffer: maxOutputBytes },
    (error, output, messages) =>
      resolve({ output, failure: error === null ? "" : messages.trim() || error.message }),
  );
  return promise;
}

/** Checks a condition twice a second until it is true, and prints the duration. */
export async function eventually(
  { signal, folder }: Cluster,
  what: string,
  limitSeconds: number,
  isTrue: () => Promise<boolean>,
): Promise<void> {
  const begin = performance.now();
  const seconds = (): number => (performance.now() - begin) / 1_000;
  while (!(await isTrue())) {
    signal.throwIfAborted();
    if (seconds() > limitSeconds)
      throw new Error(`timed out after ${limitSeconds} s: ${what}; see the logs in ${folder}`);
    await sleep(500);
  }
  console.log(`${what} (${seconds().toFixed(1)} s)`);
}
