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
import { parseArgs } from "node:util";
import type { LabKernel } from "../lab/lab-kernel.ts";
import type { Cluster } from "./cluster.ts";
import { upgradeSteps } from "./guide.ts";
import { nodes } from "./network.ts";
import { prepareCheckout, runCommand } from "./operator.ts";
import { apply, imageName, imageRoot, packImage, packRoot } from "./proxy.ts";
import { shopIsOpen, shopObjects } from "./shop.ts";
import { proxiesAre, takeSteps } from "./take-steps.ts";
import { bringUp, build, exitWith, interrupted, project, withCluster } from "./with-cluster.ts";

const earlierName = "kube-ipvs:earlier";
const earlierImage = `localhost/${earlierName}`;
const standing = { outside: 495, inside: 5 } as const;

const { values: options } = parseArgs({
  options: {
    kubernetes: { type: "string", default: "" },
    earlier: { type: "string", default: "" },
    stay: { type: "boolean", default: false },
  },
});
const earlier: string = resolve(options.earlier);

function packEarlier(): string {
  const archive = join(build, "earlier.tar");
  packRoot(imageRoot(earlier), earlierName, archive);
  return archive;
}

async function upgrade(cluster: Cluster, kernel: LabKernel): Promise<number> {
  await bringUp(cluster, kernel, {
    kubeProxy: undefined,
    mode: "ipvs",
    images: [packImage(build), packEarlier(), ...cluster.kubernetes.images.slice(0, 1)],
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
  const status = await takeSteps(cluster, checkout, steps, standing);
  if (options.stay) await interrupted(cluster.signal);
  return status;
}

await exitWith(() => {
  if (options.earlier === "" || !existsSync(imageRoot(earlier)))
    throw new Error(
      "no image of an earlier version: EARLIER=CHECKOUT, in which make image has run",
    );
  return withCluster(options.kubernetes, upgrade);
});
