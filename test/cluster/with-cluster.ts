/** Starts a cluster from the programs that the operator provides, and removes everything that a run started. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { findLabKernel } from "../lab/lab-kernel.ts";
import { type Cluster, credential, type LabCluster } from "./cluster.ts";
import { ControlPlane } from "./control-plane.ts";
import { writeCredentials } from "./credentials.ts";
import {
  type ExistingCluster,
  existingCluster,
  existingClusterOptions,
} from "./existing-cluster.ts";
import { openKubernetesFolder } from "./kubernetes-folder.ts";
import {
  apiServer,
  createNetwork,
  inNamespace,
  type Network,
  networkOf,
  removeNetwork,
} from "./network.ts";
import { type Installation, nodesAreReady, startNode } from "./nodes.ts";
import { type Option, type Options, readOptions } from "./options.ts";
import { Programs, type StoppableProgram } from "./programs.ts";
import { startDns } from "./proxy.ts";

export const project: string = join(import.meta.dirname, "../..");
/** Folder for files that later runs reuse. */
export const build: string = join(project, "build/conformance");
const packages: string = join(build, "packages");
/** The cause of a run's end after Ctrl-C or a signal. */
export const interruption = "interrupted";

/** The project's abbreviated commit, and today's date. */
export function commitAndDate(): { readonly commit: string; readonly date: string } {
  const git = ["-C", project, "rev-parse", "--short", "HEAD"];
  const commit = execFileSync("git", git, { encoding: "utf8" }).trim();
  return { commit, date: new Date().toISOString().slice(0, 10) };
}

/** The message of `error`, or the reason for the abort, because operations then fail with errors that do not give it. */
export function causeOf(signal: AbortSignal, error: unknown): string {
  const cause: unknown = signal.aborted ? signal.reason : error;
  return cause instanceof Error ? cause.message : String(cause);
}

type Body<C extends Cluster, Name extends string> = (
  cluster: C,
  options: Options<Name>,
) => Promise<number>;

/**
 * Parses the command line and runs `body` with an empty folder for a cluster on this machine. Afterwards, removes
 * everything that was started, even after a failure. The exit status is that of `body`, 130 if the run was interrupted,
 * or 2 if the cluster could not be brought up.
 */
export function runProgram<Name extends string>(
  known: Readonly<Record<Name, Option>>,
  body: Body<LabCluster, Name>,
  network: (options: Options<Name>) => Network = twoNodes,
): Promise<void> {
  return run(known, (options, abort) =>
    withLab(options, abort, network(options), (lab) => body(lab, options)),
  );
}

function twoNodes(): Network {
  return networkOf(2);
}

/** Like `runProgram`, but uses an existing cluster if the command line names its API server. */
export function runAnywhere<Name extends string>(
  known: Readonly<Record<Name, Option>>,
  body: Body<LabCluster | ExistingCluster, Name>,
): Promise<void> {
  const all = { ...known, ...existingClusterOptions };
  return run(all, async (options, abort) => {
    if (options["api-server"] === "")
      return withLab(options, abort, twoNodes(), (lab) => body(lab, options));
    return body(existingCluster(emptyFolder(), options, abort.signal), options);
  });
}

async function run<Name extends string>(
  known: Readonly<Record<Name, Option>>,
  body: (options: Options<Name>, abort: AbortController) => Promise<number>,
): Promise<void> {
  const abort = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => abort.abort(new Error(interruption)));
  try {
    process.exitCode = await body(readOptions(process.argv.slice(2), known), abort);
  } catch (error) {
    const message = causeOf(abort.signal, error);
    console.error(`cluster: ${message}`);
    process.exitCode = message === interruption ? 130 : 2;
  } finally {
    abort.abort();
  }
}

async function withLab(
  { kubernetes: kubernetesFolder, stay }: Options<never>,
  abort: AbortController,
  network: Network,
  body: (cluster: LabCluster) => Promise<number>,
): Promise<number> {
  if (kubernetesFolder === "")
    throw new Error("no folder with Kubernetes' programs: set KUBERNETES=FOLDER");
  if (process.getuid?.() !== 0) throw new Error("not root: network namespaces need root");
  const kubernetes = openKubernetesFolder(resolve(kubernetesFolder));
  const kernel = findLabKernel();
  if (kernel === undefined) throw new Error("no lab kernel: run make setup-lab");
  fetchPackages();
  const programs = new Programs((error) => abort.abort(error));
  const folder = emptyFolder();
  const memoryFolder = mkdtempSync("/dev/shm/kube-ipvs-conformance-");
  const { signal } = abort;
  try {
    const status = await body({
      ...{ folder, memoryFolder, packages, kubernetes, kernel, network, programs, signal },
      ...{ apiServer, inNetwork: inNamespace, nodeNames: network.nodes.map(({ name }) => name) },
      kubectl: kubernetes.program("kubectl"),
      kubeconfig: credential({ folder }, "admin.conf"),
    });
    if (stay) await interrupted(signal);
    return status;
  } finally {
    await programs.stop();
    removeNetwork();
    rmSync(memoryFolder, { recursive: true, force: true });
  }
}

function emptyFolder(): string {
  const folder = join(build, "run");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  return folder;
}

/** The parts that a run may stop and start again. */
export interface Running {
  readonly controlPlane: ControlPlane;
  /** The nodes' kernels, in node order. */
  readonly kernels: readonly StoppableProgram[];
}

interface Preparation {
  /** Other API server URLs, by credential name. */
  readonly servers?: Readonly<Record<string, string>>;
  /** The controllers that run. By default, all that the controller manager enables. */
  readonly controllers?: readonly string[];
}

/** Starts the nodes and the control plane, and waits until the kubelets report all nodes ready. */
export async function bringUp(
  cluster: LabCluster,
  installation: Installation,
  { servers, controllers }: Preparation = {},
): Promise<Running> {
  const { nodes } = cluster.network;
  createNetwork(nodes);
  writeCredentials(join(cluster.folder, "credentials"), nodes, servers);
  const kernels = nodes.map((node) => startNode(cluster, node, installation));
  const controlPlane = new ControlPlane(cluster, controllers);
  await controlPlane.start();
  startAddition(cluster, "dns");
  await startDns(cluster);
  await nodesAreReady(cluster);
  return { controlPlane, kernels };
}

/** Gives Services of type LoadBalancer addresses that this machine can reach. */
export function startLoadBalancer(cluster: LabCluster): void {
  startAddition(cluster, "load-balancer", ...cluster.network.nodes.map(({ address }) => address));
}

/** Starts a program from this folder in the cluster's namespace. */
function startAddition(cluster: LabCluster, name: string, ...args: readonly string[]): void {
  const script = join(import.meta.dirname, `${name}.ts`);
  const argv = inNamespace(process.execPath, script, credential(cluster, ""), ...args);
  cluster.programs.start(name, argv, { log: join(cluster.folder, `${name}.log`) });
}

/** Brings up the nodes with image archives and without a proxy, or loads the archives into an existing cluster. */
export async function provide(
  cluster: LabCluster | ExistingCluster,
  images: readonly string[],
): Promise<void> {
  if ("loadImage" in cluster) {
    for (const archive of images) await cluster.loadImage(archive);
    return;
  }
  const [pause] = cluster.kubernetes.images;
  const all = [...images, ...(pause === undefined ? [] : [pause])];
  await bringUp(cluster, { kubeProxy: undefined, mode: "ipvs", images: all });
}

/** Keeps the cluster until Ctrl-C, so that it can be examined. */
function interrupted(signal: AbortSignal): Promise<void> {
  console.log("The cluster keeps running until Ctrl-C.");
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
