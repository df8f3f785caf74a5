/** One run's cluster: folders, programs, and kubectl as its administrator. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { KubernetesFolder } from "./kubernetes-folder.ts";
import { inNamespace } from "./network.ts";
import type { Programs } from "./programs.ts";

/** Enough for a list of all objects. */
const maxOutputBytes = 64 << 20;

export interface Cluster {
  /** Logs, credentials and files of the nodes. */
  readonly folder: string;
  /** A folder in memory, for etcd. */
  readonly memoryFolder: string;
  /** Unpacked Debian packages. */
  readonly packages: string;
  readonly kubernetes: KubernetesFolder;
  readonly programs: Programs;
  /** Aborted when the run is interrupted or a program ends that must not. */
  readonly signal: AbortSignal;
}

/** The path of a file that credentials.ts writes. */
export function credential({ folder }: Pick<Cluster, "folder">, file: string): string {
  return join(folder, "credentials", file);
}

/** What kubectl prints; undefined if it fails. */
export async function kubectl(
  cluster: Cluster,
  ...args: readonly string[]
): Promise<string | undefined> {
  const { output, failure } = await tryKubectl(cluster, ...args);
  return failure === "" ? output : undefined;
}

/** What kubectl prints, and why it failed; the reason is empty if it did not. */
export function tryKubectl(
  cluster: Cluster,
  ...args: readonly string[]
): Promise<{ readonly output: string; readonly failure: string }> {
  const [program = "", ...rest] = inNamespace(
    cluster.kubernetes.program("kubectl"),
    `--kubeconfig=${credential(cluster, "admin.conf")}`,
    ...args,
  );
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

/** Asks twice a second until the answer is yes, and prints how long that took. */
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
      throw new Error(`not true within ${limitSeconds} s: ${what}; see the logs in ${folder}`);
    await sleep(500);
  }
  console.log(`${what} (${seconds().toFixed(1)} s)`);
}
