/**
 * Upgrades a cluster from an earlier version of kube-ipvs and rolls it back with the guide's commands while connections
 * are open.
 *
 *     node test/cluster/upgrade.ts --earlier CHECKOUT --kubernetes FOLDER [--stay]
 *     node test/cluster/upgrade.ts --earlier CHECKOUT --api-server URL --load COMMAND
 *
 * CHECKOUT is a clone of the earlier version in which `make image` has run. The second form uses an existing two-node
 * cluster; see existing-cluster.ts. Exit status 1: a step failed, or a connection broke. 2: the cluster could not be
 * brought up. 130: interrupted.
 */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { LabCluster } from "./cluster.ts";
import type { ExistingCluster } from "./existing-cluster.ts";
import { upgradeSteps } from "./guide.ts";
import { prepareCheckout, runCommand } from "./operator.ts";
import type { Option } from "./options.ts";
import { apply, imageName, imageRoot, packImage, packRoot } from "./proxy.ts";
import { recordRun } from "./record-run.ts";
import type { RunCounts } from "./run-table.ts";
import { shopIsOpen, shopObjects } from "./shop.ts";
import { proxiesAre, takeSteps } from "./take-steps.ts";
import { build, project, provide, runAnywhere } from "./with-cluster.ts";

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

async function upgrade(cluster: LabCluster | ExistingCluster, earlier: string): Promise<RunCounts> {
  await provide(cluster, [packImage(build), packEarlier(earlier)]);
  const overlay = "deploy/kustomize/overlays/replace-kube-proxy";
  const installed = prepareCheckout(cluster, earlier, earlierImage);
  await runCommand(cluster, installed, `kubectl apply -k ${overlay}`);
  await apply(cluster, "shop", shopObjects(cluster));
  await proxiesAre(
    cluster,
    cluster.nodeNames.map(() => earlierImage),
  );
  await shopIsOpen(cluster);
  const checkout = prepareCheckout(cluster, project, imageName);
  const images = { before: earlierImage, after: imageName };
  const steps = upgradeSteps(cluster.nodeNames[0] ?? "", images);
  return takeSteps(cluster, checkout, steps, standing);
}

const name = { run: "cluster-upgrade", proxy: "kube-ipvs", mode: "ipvs" };
await runAnywhere({ earlier: checkoutWithImage }, (cluster, options) =>
  recordRun(cluster, options, name, () => upgrade(cluster, resolve(options.earlier))),
);
