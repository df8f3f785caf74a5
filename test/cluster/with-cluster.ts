/** Starts a cluster from the programs that the operator provides, and removes everything that a run started. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { findLabKernel, type LabKernel } from "../lab/lab-kernel.ts";
import { type Cluster, credential } from "./cluster.ts";
import { ControlPlane } from "./control-plane.ts";
import { writeCredentials } from "./credentials.ts";
import { openKubernetesFolder } from "./kubernetes-folder.ts";
import { createNetwork, inNamespace, nodes, removeNetwork } from "./network.ts";
import { type Installation, nodesAreReady, startNode } from "./nodes.ts";
import { type Option, type Options, readOptions } from "./options.ts";
import { Programs, type StoppableProgram } from "./programs.ts";
import { startDns } from "./proxy.ts";

export const project: string = join(import.meta.dirname, "../..");
/** Folder for files that later runs reuse. */
export const build: string = join(project, "build/conformance");
const packages: string = join(build, "packages");
const interruption = "interrupted";

/** The project's commit, short. */
export function commit(): string {
  const git = ["-C", project, "rev-parse", "--short", "HEAD"];
  return execFileSync("git", git, { encoding: "utf8" }).trim();
}

/**
 * Reads the command line, runs `body` with an empty folder for a cluster, and removes what was started, however it ends.
 * The exit status is that of `body`, 130 if the run was interrupted, or 2 if the cluster could not be brought up.
 */
export async function runProgram<Name extends string>(
  known: Readonly<Record<Name, Option>>,
  body: (cluster: Cluster, kernel: LabKernel, options: Options<Name>) => Promise<number>,
): Promise<void> {
  try {
    const options = readOptions(process.argv.slice(2), known);
    process.exitCode = await withCluster(options.kubernetes, async (cluster, kernel) => {
      const status = await body(cluster, kernel, options);
      if (options.stay) await interrupted(cluster.signal);
      return status;
    });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    console.error(`cluster: ${message}`);
    process.exitCode = message === interruption ? 130 : 2;
  }
}

async function withCluster(
  kubernetesFolder: string,
  body: (cluster: Cluster, kernel: LabKernel) => Promise<number>,
): Promise<number> {
  if (kubernetesFolder === "")
    throw new Error("no folder with Kubernetes' programs: KUBERNETES=FOLDER");
  if (process.getuid?.() !== 0) throw new Error("not root: network namespaces need root");
  const kubernetes = openKubernetesFolder(resolve(kubernetesFolder));
  const kernel = findLabKernel();
  if (kernel === undefined) throw new Error("no lab kernel: make setup-lab");
  fetchPackages();
  const abort = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => abort.abort(new Error(interruption)));
  const programs = new Programs((error) => abort.abort(error));
  const folder = join(build, "run");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const memoryFolder = mkdtempSync("/dev/shm/kube-ipvs-conformance-");
  const { signal } = abort;
  try {
    return await body({ folder, memoryFolder, packages, kubernetes, programs, signal }, kernel);
  } catch (error) {
    // What the abort ended fails with an error of its own.
    signal.throwIfAborted();
    throw error;
  } finally {
    await programs.stop();
    abort.abort();
    removeNetwork();
    rmSync(memoryFolder, { recursive: true, force: true });
  }
}

/** What a run may stop and start again. */
export interface Running {
  readonly controlPlane: ControlPlane;
  /** In the order of `nodes`. */
  readonly kernels: readonly StoppableProgram[];
}

/** Starts the nodes and the control plane, and waits until kubelet reports both nodes ready. */
export async function bringUp(
  cluster: Cluster,
  kernel: LabKernel,
  installation: Installation,
): Promise<Running> {
  createNetwork();
  writeCredentials(join(cluster.folder, "credentials"));
  const kernels = nodes.map((node) => startNode(cluster, kernel, node, installation));
  const controlPlane = new ControlPlane(cluster);
  await controlPlane.start();
  cluster.programs.start(
    "dns",
    inNamespace(process.execPath, join(import.meta.dirname, "dns.ts"), credential(cluster, "")),
    { log: join(cluster.folder, "dns.log") },
  );
  await startDns(cluster);
  await nodesAreReady(cluster);
  return { controlPlane, kernels };
}

/** Keeps the cluster until Ctrl-C, so that it can be examined. */
function interrupted(signal: AbortSignal): Promise<void> {
  console.log("The cluster stays until Ctrl-C.");
  const { promise, resolve: end } = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => end(), { once: true });
  return promise;
}

function fetchPackages(): void {
  if (existsSync(packages)) return;
  const step = ["Fetching containerd, crun, CNI plugins and etcd"];
  const script = join(import.meta.dirname, "fetch-packages.sh");
  execFileSync(join(project, "toolchain/step.sh"), [...step, script, packages], {
    stdio: "inherit",
  });
}
