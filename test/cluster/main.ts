/**
 * Runs Kubernetes' own network tests on a cluster that it brings up: see README.md.
 *
 *     node test/cluster/main.ts --kubernetes FOLDER [--focus RE] [--skip RE] [--proxy kube-ipvs|kube-proxy]
 *       [--mode ipvs|iptables] [--stay]
 *
 * Exit status 1: a spec failed. 2: the cluster could not be brought up. 130: interrupted.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { findLabKernel, type LabKernel } from "../lab/lab-kernel.ts";
import { type PolicyRule, readAuditLog } from "./audit.ts";
import { type Cluster, credential, kubectl } from "./cluster.ts";
import { auditLog, startControlPlane } from "./control-plane.ts";
import { writeCredentials } from "./credentials.ts";
import type { SpecResult } from "./ginkgo.ts";
import { type KubernetesFolder, openKubernetesFolder } from "./kubernetes-folder.ts";
import { tryManifests } from "./manifests.ts";
import { createNetwork, inNamespace, removeNetwork } from "./network.ts";
import { nodesAreReady, startNodes } from "./nodes.ts";
import { Programs } from "./programs.ts";
import { installKubeIpvs, packImage, startDns } from "./proxy.ts";
import {
  countOf,
  manifestTable,
  type Run,
  reportText,
  requestTable,
  specTable,
  withRun,
} from "./report.ts";
import { runSpecs } from "./specs.ts";

const project: string = join(import.meta.dirname, "../..");
const build: string = join(project, "build/conformance");
const packages: string = join(build, "packages");
const reports: string = join(project, "docs/reports");

/** What is skipped disturbs other specs, or waits for minutes. */
const defaults = {
  focus: String.raw`\[sig-network\] Services`,
  skip: String.raw`\[Serial\]|\[Disruptive\]|session affinity timeout`,
} as const;
const interruption = "interrupted";

const { values: options } = parseArgs({
  options: {
    kubernetes: { type: "string", default: "" },
    focus: { type: "string", default: defaults.focus },
    skip: { type: "string", default: defaults.skip },
    proxy: { type: "string", default: "kube-ipvs" },
    mode: { type: "string", default: "ipvs" },
    stay: { type: "boolean", default: false },
  },
});

function checkOptions(): void {
  if (options.kubernetes === "")
    throw new Error("no folder with Kubernetes' programs: make conformance KUBERNETES=FOLDER");
  if (!["kube-ipvs", "kube-proxy"].includes(options.proxy))
    throw new Error(`PROXY=${options.proxy}: must be kube-ipvs or kube-proxy`);
  if (!["ipvs", "iptables"].includes(options.mode))
    throw new Error(`MODE=${options.mode}: must be ipvs or iptables`);
  if (process.getuid?.() !== 0) throw new Error("not root: network namespaces need root");
}

function fetchPackages(): void {
  if (existsSync(packages)) return;
  const step = ["Fetching containerd, crun, CNI plugins and etcd"];
  const script = join(import.meta.dirname, "fetch-packages.sh");
  execFileSync(join(project, "toolchain/step.sh"), [...step, script, packages], {
    stdio: "inherit",
  });
}

/** Brings the cluster up and runs the specs on it. */
async function conformance(cluster: Cluster, kernel: LabKernel): Promise<readonly SpecResult[]> {
  const { kubernetes } = cluster;
  const isOurs = options.proxy === "kube-ipvs";
  createNetwork();
  writeCredentials(join(cluster.folder, "credentials"));
  startNodes(cluster, kernel, {
    kubeProxy: isOurs ? undefined : kubernetes.program("kube-proxy"),
    mode: options.mode,
    images: [...(isOurs ? [packImage(build)] : []), ...kubernetes.images],
  });
  await startControlPlane(cluster);
  cluster.programs.start(
    "dns",
    inNamespace(process.execPath, join(import.meta.dirname, "dns.ts"), credential(cluster, "")),
    { log: join(cluster.folder, "dns.log") },
  );
  await startDns(cluster);
  await nodesAreReady(cluster);
  if (isOurs) await installKubeIpvs(cluster, options.mode);
  return runSpecs(cluster, options);
}

/** What this run is, as long as it has no results: the commit may be another one when it ends. */
function describeRun(kubernetes: KubernetesFolder, kernel: LabKernel): Omit<Run, "specs"> {
  const changed = (["focus", "skip"] as const).filter((name) => options[name] !== defaults[name]);
  const git = ["-C", project, "rev-parse", "--short", "HEAD"];
  return {
    proxy: options.proxy,
    mode: options.mode,
    commit: execFileSync("git", git, { encoding: "utf8" }).trim(),
    date: new Date().toISOString().slice(0, 10),
    kubernetes: kubernetes.version,
    kernel: basename(kernel.modules),
    options: changed.map((name) => `${name.toUpperCase()}='${options[name]}'`).join(" "),
  };
}

function writeReport(run: Run): void {
  const data = join(reports, "data/conformance.json");
  const earlier = existsSync(data)
    ? (JSON.parse(readFileSync(data, "utf8")) as readonly Run[])
    : [];
  const runs = withRun(earlier, run);
  writeFileSync(data, `${JSON.stringify(runs, undefined, 1)}\n`);
  writeFileSync(join(reports, "data/conformance.tsv"), specTable(runs));
  writeFileSync(join(reports, "data/conformance-requests.tsv"), requestTable(runs));
  writeFileSync(join(reports, "data/conformance-manifests.tsv"), manifestTable(runs));
  writeFileSync(join(reports, "conformance.md"), reportText(runs));
}

async function main(): Promise<number> {
  checkOptions();
  const kubernetes = openKubernetesFolder(resolve(options.kubernetes));
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
  const cluster = { folder, memoryFolder, packages, kubernetes, programs, signal };
  try {
    const description = describeRun(kubernetes, kernel);
    const specs = await conformance(cluster, kernel);
    const role = await kubectl(cluster, "get", "clusterrole", "system:node-proxier", "-o", "json");
    const { rules } = JSON.parse(role ?? "{}") as { readonly rules?: readonly PolicyRule[] };
    const requests = readAuditLog(auditLog(cluster), rules ?? []);
    const isOurs = options.proxy === "kube-ipvs";
    const manifests = isOurs ? await tryManifests(cluster) : undefined;
    const run = { ...description, specs, requests, ...(manifests && { manifests }) };
    writeReport(run);
    const failed = countOf(run, "failed");
    console.log(
      `${countOf(run, "passed")} passed, ${failed} failed, ${countOf(run, "skipped")} skipped`,
    );
    if (options.stay) await interrupted(signal);
    const refused = (manifests ?? []).filter(({ failure }) => failure !== "");
    for (const { name, failure } of refused) console.log(`not accepted: ${name}: ${failure}`);
    return failed + refused.length === 0 ? 0 : 1;
  } finally {
    await programs.stop();
    removeNetwork();
    rmSync(memoryFolder, { recursive: true, force: true });
  }
}

function interrupted(signal: AbortSignal): Promise<void> {
  console.log("The cluster stays until Ctrl-C.");
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => resolve(), { once: true });
  return promise;
}

try {
  process.exitCode = await main();
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  console.error(`conformance: ${message}`);
  process.exitCode = message === interruption ? 130 : 2;
}
