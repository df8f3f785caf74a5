/**
 * Upgrades a cluster from an earlier version of kube-ipvs and rolls it back, by the commands of the guide, with open
 * connections.
 *
 *     node test/cluster/upgrade.ts --kubernetes FOLDER --earlier CHECKOUT [--stay]
 *
 * CHECKOUT is a clone of the earlier version in which `make image` has run. Exit status 1: a step failed, or a connection
 * broke. 2: the cluster could not be brought up. 130: interrupted.
 */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { LabKernel } from "../lab/lab-kernel.ts";
import type { Cluster } from "./cluster.ts";
import { upgradeSteps } from "./guide.ts";
import { nodes } from "./network.ts";
import { prepareCheckout, runCommand } from "./operator.ts";
import type { Option, Options } from "./options.ts";
import { apply, imageName, imageRoot, packImage, packRoot } from "./proxy.ts";
import { shopIsOpen, shopObjects } from "./shop.ts";
import { proxiesAre, takeSteps } from "./take-steps.ts";
import { bringUp, build, project, runProgram } from "./with-cluster.ts";

const earlierName = "kube-ipvs:earlier";
const earlierImage = `localhost/${earlierName}`;
const standing = { outside: 495, inside: 5 } as const;
/** EARLIER=CHECKOUT. */
const checkoutWithImage: Option = {
  initial: "",
  form: {
    name: "a checkout of an earlier version in which `make image` has run",
    isValid: (value) => value !== "" && existsSync(imageRoot(resolve(value))),
  },
};

function packEarlier(earlier: string): string {
  const archive = join(build, "earlier.tar");
  packRoot(imageRoot(earlier), earlierName, archive);
  return archive;
}

async function upgrade(
  cluster: Cluster,
  kernel: LabKernel,
  options: Options<"earlier">,
): Promise<number> {
  const earlier = resolve(options.earlier);
  await bringUp(cluster, kernel, {
    kubeProxy: undefined,
    mode: "ipvs",
    images: [packImage(build), packEarlier(earlier), ...cluster.kubernetes.images.slice(0, 1)],
  });
  const overlay = "deploy/kustomize/overlays/replace-kube-proxy";
  const installed = prepareCheckout(cluster, earlier, earlierImage);
  await runCommand(cluster, installed, `kubectl apply -k ${overlay}`);
  await apply(cluster, "shop", shopObjects());
  await proxiesAre(
    cluster,
    nodes.map(() => earlierImage),
  );
  await shopIsOpen(cluster);
  const checkout = prepareCheckout(cluster, project, imageName);
  const steps = upgradeSteps(nodes[0]?.name ?? "", { before: earlierImage, after: imageName });
  return takeSteps(cluster, checkout, steps, standing);
}

await runProgram({ earlier: checkoutWithImage }, upgrade);
