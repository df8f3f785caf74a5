/**
 * Takes a kubeadm cluster from kube-proxy to kube-ipvs and back by the commands of the guides, with open connections.
 *
 *     node test/cluster/migration.ts --kubernetes FOLDER [--stay]
 *
 * Exit status 1: a step failed, or a connection broke. 2: the cluster could not be brought up. 130: interrupted.
 */
import type { LabKernel } from "../lab/lab-kernel.ts";
import type { Cluster } from "./cluster.ts";
import { migrationSteps } from "./guide.ts";
import { kubeProxyImage, kubeProxyObjects, packKubeProxy } from "./kubeadm.ts";
import { nodes } from "./network.ts";
import { prepareCheckout } from "./operator.ts";
import { apply, imageName, packImage } from "./proxy.ts";
import { shopIsOpen, shopObjects } from "./shop.ts";
import { proxiesAre, takeSteps } from "./take-steps.ts";
import { bringUp, build, project, runProgram } from "./with-cluster.ts";

const standing = { outside: 20, inside: 5 } as const;

async function migrate(cluster: Cluster, kernel: LabKernel): Promise<number> {
  const { kubernetes } = cluster;
  const images = [packImage(build), packKubeProxy(build, kubernetes.program("kube-proxy"))];
  await bringUp(cluster, kernel, {
    kubeProxy: undefined,
    mode: "ipvs",
    images: [...images, ...kubernetes.images.slice(0, 1)],
  });
  await apply(cluster, "kube-proxy", [...kubeProxyObjects(), ...shopObjects()]);
  await proxiesAre(
    cluster,
    nodes.map(() => kubeProxyImage),
  );
  await shopIsOpen(cluster);
  const checkout = prepareCheckout(cluster, project, imageName);
  const steps = migrationSteps(nodes[0]?.name ?? "", { before: kubeProxyImage, after: imageName });
  return takeSteps(cluster, checkout, steps, standing);
}

await runProgram({}, migrate);
