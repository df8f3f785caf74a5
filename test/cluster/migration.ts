/**
 * Migrates a kubeadm cluster from kube-proxy to kube-ipvs and back with the guides' commands while connections are
 * open.
 *
 *     node test/cluster/migration.ts --kubernetes FOLDER [--stay]
 *     node test/cluster/migration.ts --api-server URL --load COMMAND
 *
 * The second form uses an existing two-node cluster; see existing-cluster.ts. Exit status 1: a step failed, or a
 * connection broke. 2: the cluster could not be brought up. 130: interrupted.
 */
import { type Cluster, kubectl, type LabCluster } from "./cluster.ts";
import type { ExistingCluster } from "./existing-cluster.ts";
import { migrationSteps } from "./guide.ts";
import { kubeProxyObjects, packKubeProxy } from "./kubeadm.ts";
import { prepareCheckout } from "./operator.ts";
import { apply, imageName, packImage } from "./proxy.ts";
import { recordRun } from "./record-run.ts";
import type { RunCounts } from "./run-table.ts";
import { shopIsOpen, shopObjects } from "./shop.ts";
import { proxiesAre, takeSteps } from "./take-steps.ts";
import { build, project, provide, runAnywhere } from "./with-cluster.ts";

const standing = { outside: 20, inside: 5 } as const;

async function migrate(cluster: LabCluster | ExistingCluster): Promise<RunCounts> {
  const images = [packImage(build)];
  if ("loadImage" in cluster) await provide(cluster, images);
  else {
    const kubeProxy = cluster.kubernetes.program("kube-proxy");
    await provide(cluster, [...images, packKubeProxy(build, kubeProxy)]);
    await apply(cluster, "kube-proxy", kubeProxyObjects());
  }
  const before = await imageOfKubeProxy(cluster);
  await apply(cluster, "shop", shopObjects(cluster));
  await proxiesAre(
    cluster,
    cluster.nodeNames.map(() => before),
  );
  await shopIsOpen(cluster);
  const checkout = prepareCheckout(cluster, project, imageName);
  const steps = migrationSteps(cluster.nodeNames[0] ?? "", { before, after: imageName });
  return takeSteps(cluster, checkout, steps, standing);
}

async function imageOfKubeProxy(cluster: Cluster): Promise<string> {
  const path = "jsonpath={.spec.template.spec.containers[0].image}";
  const args = ["-n", "kube-system", "get", "daemonset", "kube-proxy", "-o", path];
  const image = await kubectl(cluster, ...args);
  if (image === undefined) throw new Error("no DaemonSet kube-proxy in kube-system");
  return image;
}

const name = { run: "migration", proxy: "kube-proxy and kube-ipvs", mode: "ipvs" };
await runAnywhere({}, (cluster, options) =>
  recordRun(cluster, options, name, () => migrate(cluster)),
);
