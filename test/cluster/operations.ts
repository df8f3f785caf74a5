/**
 * Applies each overlay and a plain manifest to a cluster, runs the guides' commands on it, and cleans up its nodes.
 * Then installs the chart with a secure metrics server.
 *
 *     node test/cluster/operations.ts --kubernetes FOLDER [--stay]
 *
 * Exit status 1: a command failed, or a Service did not answer. 2: the cluster could not be brought up. 130: interrupted.
 */
import { join } from "node:path";
import type { LabCluster } from "./cluster.ts";
import { cleaningCommands, observingCommands, operatingCommands } from "./guide.ts";
import { kubeProxyObjects } from "./kubeadm.ts";
import { prepareCheckout, runCommand } from "./operator.ts";
import { apply, imageName, packImage } from "./proxy.ts";
import { recordRun } from "./record-run.ts";
import type { RunCounts } from "./run-table.ts";
import { trySecureMetrics } from "./secure-metrics.ts";
import { shop, shopIsOpen, shopObjects } from "./shop.ts";
import { build, project, provide, runProgram } from "./with-cluster.ts";

interface Installation {
  /** The arguments of `kubectl apply` and `kubectl delete`. */
  readonly source: string;
  readonly daemonSet: string;
  /** Whether a Service without labels must answer. */
  readonly serves: boolean;
}

const observer = "kube-ipvs-observe";
const overlays = "deploy/kustomize/overlays";

function overlay(name: string, serves = true, daemonSet = "kube-ipvs"): Installation {
  return { source: `-k ${overlays}/${name}`, daemonSet, serves };
}

/** Only one can run on a node, so each is deleted before the next one is applied. The last one remains. */
const installations: readonly Installation[] = [
  overlay("observe", false, observer),
  overlay("kubeadm"),
  overlay("k3s"),
  overlay("beside-kube-proxy", false),
  overlay("replace-kube-proxy"),
  { source: "-f deploy/manifests/replace-kube-proxy.yaml", daemonSet: "kube-ipvs", serves: true },
];

async function operate(cluster: LabCluster): Promise<RunCounts> {
  await provide(cluster, [packImage(build)]);
  const checkout = prepareCheckout(cluster, project, imageName);
  // Two overlays use kube-proxy's ConfigMap. Pods wait while kube-proxy itself is running.
  const isDaemonSet = (object: object): boolean => "kind" in object && object.kind === "DaemonSet";
  await apply(
    cluster,
    "kube-proxy",
    kubeProxyObjects().filter((object) => !isDaemonSet(object)),
  );
  await apply(cluster, "shop", shopObjects(cluster));
  const [node = ""] = cluster.nodeNames;
  const names = { node, zone: "zone1", service: "web", namespace: shop };
  let count = 0;
  const failures: string[] = [];
  const attempt = async (what: string, action: () => Promise<void>): Promise<void> => {
    console.log(what);
    count += 1;
    try {
      await action();
    } catch (error) {
      cluster.signal.throwIfAborted();
      const message = error instanceof Error ? error.message : String(error);
      console.log(`failed: ${message}`);
      failures.push(message);
    }
  };
  const run = (command: string): Promise<void> =>
    attempt(`$ ${command}`, () => runCommand(cluster, checkout, command));
  for (const { source, daemonSet, serves } of installations) {
    await run(`kubectl apply --server-side ${source}`);
    await run(`kubectl -n kube-system rollout status daemonset/${daemonSet} --timeout=5m`);
    if (daemonSet === observer) for (const command of observingCommands(names)) await run(command);
    if (serves) await attempt("the shop answers", () => shopIsOpen(cluster));
    if (source !== installations.at(-1)?.source) await run(`kubectl delete ${source}`);
  }
  for (const command of [...operatingCommands(names), ...cleaningCommands()]) await run(command);
  await attempt("the secure metrics server checks tokens", () => trySecureMetrics(cluster));
  console.log(`${failures.length} of ${count} failed; see ${join(cluster.folder, "")}`);
  const [failure = ""] = failures;
  return { counted: "commands and checks", count, failed: failures.length, failure };
}

const name = { run: "cluster-commands", proxy: "kube-ipvs", mode: "ipvs" };
await runProgram({}, (cluster, options) =>
  recordRun(cluster, options, name, () => operate(cluster)),
);
