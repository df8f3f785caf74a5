/**
 * For random Services and Pods on a real API server, compares the EndpointSlices of `kube-ipvs endpoint-controller`
 * with those of kube-controller-manager. No nodes run.
 *
 *     node test/cluster/endpoints.ts --kubernetes FOLDER [--services N] [--seed N]
 *
 * Exit status 1: the EndpointSlices differ. 2: the control plane could not be started. 130: interrupted.
 */
import { join } from "node:path";
import { type Cluster, credential, eventually, kubectl, type LabCluster } from "./cluster.ts";
import { differencesOf, type EndpointSlice } from "./compare-slices.ts";
import { ControlPlane } from "./control-plane.ts";
import { writeCredentials } from "./credentials.ts";
import { createNetwork, inNamespace } from "./network.ts";
import { positiveInteger } from "./options.ts";
import { apply, applyStatus } from "./proxy.ts";
import { namespace, randomObjects } from "./random-endpoints.ts";
import { recordRun } from "./record-run.ts";
import type { RunCounts } from "./run-table.ts";
import { project, runProgram } from "./with-cluster.ts";

const settlingSeconds = 300;
const shownDifferences = 20;

/** Values of the label `endpointslice.kubernetes.io/managed-by`. */
const controllers = {
  theirs: "endpointslice-controller.k8s.io",
  ours: "kube-ipvs-endpoint-controller",
} as const;

async function listSlices(cluster: Cluster, manager: string): Promise<readonly EndpointSlice[]> {
  const selector = `endpointslice.kubernetes.io/managed-by=${manager}`;
  const args = ["-n", namespace, "get", "endpointslices", "-l", selector, "-o", "json"];
  const text = await kubectl(cluster, ...args);
  return (JSON.parse(text ?? '{"items":[]}') as { items: readonly EndpointSlice[] }).items;
}

/** Returns a controller's slices when every Service has one and nothing has changed for two seconds. */
async function settledSlices(
  cluster: Cluster,
  manager: string,
  services: number,
): Promise<readonly EndpointSlice[]> {
  let last = "";
  let equalLooks = 0;
  let slices: readonly EndpointSlice[] = [];
  await eventually(cluster, `slices of ${manager}`, settlingSeconds, async () => {
    slices = await listSlices(cluster, manager);
    const text = JSON.stringify(slices);
    equalLooks = text === last ? equalLooks + 1 : 0;
    last = text;
    const served = new Set(
      slices.map(({ metadata }) => metadata.labels?.["kubernetes.io/service-name"]),
    );
    return served.size >= services && equalLooks >= 4;
  });
  return slices;
}

async function createObjects(cluster: Cluster, seed: number, services: number): Promise<void> {
  const objects = randomObjects(seed, services);
  const home = { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } };
  await apply(cluster, "nodes", [home, ...objects.nodes]);
  await eventually(cluster, "the namespace has its account", 60, async () => {
    const account = await kubectl(cluster, "-n", namespace, "get", "serviceaccount", "default");
    return account !== undefined;
  });
  await apply(cluster, "pods", [...objects.services, ...objects.pods]);
  await applyStatus(cluster, "statuses", objects.statuses);
  const deletion = ["-n", namespace, "delete", "pods", "--wait=false", "--grace-period=3600"];
  await kubectl(cluster, ...deletion, ...objects.deletedPods);
  console.log(
    `${objects.services.length} Services, ${objects.pods.length} Pods, ${objects.deletedPods.length} of them deleted`,
  );
}

async function compare(cluster: LabCluster, seed: number, services: number): Promise<RunCounts> {
  createNetwork([]);
  writeCredentials(join(cluster.folder, "credentials"), []);
  const enabled = ["serviceaccount-controller", "endpointslice-controller"];
  const controlPlane = new ControlPlane(cluster, enabled);
  await controlPlane.start();
  await createObjects(cluster, seed, services);
  const theirs = await settledSlices(cluster, controllers.theirs, services);
  await controlPlane.stop("kube-controller-manager");
  await kubectl(cluster, "-n", namespace, "delete", "endpointslices", "--all");
  cluster.programs.start(
    "endpoint-controller",
    inNamespace(
      join(project, "dist/kube-ipvs"),
      "endpoint-controller",
      `--kubeconfig=${credential(cluster, "admin.conf")}`,
    ),
    { log: join(cluster.folder, "endpoint-controller.log") },
  );
  const ours = await settledSlices(cluster, controllers.ours, services);
  const differences = differencesOf(theirs, ours);
  for (const line of differences.slice(0, shownDifferences)) console.log(line);
  console.log(
    `seed ${seed}: ${theirs.length} and ${ours.length} slices, ${differences.length} differences`,
  );
  const counted = `Services with Pods, seed ${seed}`;
  const [failure = ""] = differences;
  return { counted, count: services, failed: differences.length, failure };
}

const name = { run: "compare-slices", proxy: "kube-ipvs", mode: "endpoint-controller", kernel: "" };
const known = { services: positiveInteger(200), seed: positiveInteger(1) };
await runProgram(known, (cluster, options) =>
  recordRun(cluster, options, name, () =>
    compare(cluster, Number(options.seed), Number(options.services)),
  ),
);
