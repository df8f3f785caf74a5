/**
 * Takes a kubeadm cluster from kube-proxy to kube-ipvs and back by the commands of the guides, with open connections.
 *
 *     node test/cluster/migration.ts --kubernetes FOLDER [--stay]
 *
 * Exit status 1: a step failed, or a connection broke. 2: the cluster could not be brought up. 130: interrupted.
 */
import { parseArgs } from "node:util";
import type { LabKernel } from "../lab/lab-kernel.ts";
import { type Cluster, eventually } from "./cluster.ts";
import { migrationSteps, type Step } from "./guide.ts";
import { kubeProxyObjects, packKubeProxy } from "./kubeadm.ts";
import { nodes } from "./network.ts";
import { prepareCheckout, runCommand } from "./operator.ts";
import { apply, packImage } from "./proxy.ts";
import {
  arePodsReady,
  closeConnections,
  openConnections,
  shopIsOpen,
  shopObjects,
} from "./shop.ts";
import { bringUp, build, exitWith, interrupted, withCluster } from "./with-cluster.ts";

/** Connections from outside to each node's port, and from a pod on each node to the cluster IP. */
const outside = 20;
const inside = 5;
/** A pod of a proxy starts and stops within. */
const servingSeconds = 300;
const rolledOut = `kubectl -n kube-system rollout status daemonset/kube-proxy --timeout=${servingSeconds}s`;

const { values: options } = parseArgs({
  options: {
    kubernetes: { type: "string", default: "" },
    stay: { type: "boolean", default: false },
  },
});

/** Runs a step of the guides and prints how long it took. Throws if something else serves afterwards, or nobody. */
async function take(cluster: Cluster, checkout: string, { command, serving }: Step): Promise<void> {
  console.log(`$ ${command}`);
  const begin = performance.now();
  await runCommand(cluster, checkout, command);
  for (const proxy of ["kube-proxy", "kube-ipvs"] as const) {
    const places = nodes.flatMap(({ name }, index) => (serving[index] === proxy ? [name] : []));
    const what = `${proxy} serves ${places.join(" and ") || "no node"}`;
    const isSo = (): Promise<boolean> =>
      arePodsReady(cluster, "kube-system", `k8s-app=${proxy}`, places);
    await eventually(cluster, what, servingSeconds, isSo);
  }
  const { count } = await closeConnections(await openConnections(cluster, 2, 1));
  const seconds = ((performance.now() - begin) / 1_000).toFixed(0);
  console.log(`  ${seconds} s; ${count} new connections\n`);
}

async function migrate(cluster: Cluster, kernel: LabKernel): Promise<number> {
  const { kubernetes } = cluster;
  const images = [packImage(build), packKubeProxy(build, kubernetes.program("kube-proxy"))];
  await bringUp(cluster, kernel, {
    kubeProxy: undefined,
    mode: "ipvs",
    images: [...images, ...kubernetes.images.slice(0, 1)],
  });
  await apply(cluster, "kube-proxy", [...kubeProxyObjects(), ...shopObjects()]);
  await shopIsOpen(cluster);
  const holders = await openConnections(cluster, outside, inside);
  const checkout = prepareCheckout(cluster);
  let failure = "";
  try {
    for (const step of migrationSteps(nodes[0]?.name ?? "")) await take(cluster, checkout, step);
    // The last step replaces its pods.
    await runCommand(cluster, checkout, rolledOut);
  } catch (error) {
    cluster.signal.throwIfAborted();
    failure = error instanceof Error ? error.message : String(error);
  }
  const { count, broken } = await closeConnections(holders);
  console.log(failure || "all steps done");
  console.log(`${count} connections stood all the time, ${broken} broke`);
  if (options.stay) await interrupted(cluster.signal);
  return failure === "" && broken === 0 ? 0 : 1;
}

await exitWith(() => withCluster(options.kubernetes, migrate));
