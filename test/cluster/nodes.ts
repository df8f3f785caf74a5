/** Boots the nodes. Each node is user-mode Linux on its own processor, with a real kubelet. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { allowedCpu } from "../lab/kernel-needs.ts";
import { kernelEnvironment } from "../lab/lab-kernel.ts";
import { type Cluster, credential, eventually, kubectl, type LabCluster } from "./cluster.ts";
import { inNamespace, type NodeAddresses } from "./network.ts";
import { type NodeSoftware, nodeFiles } from "./node-files.ts";
import type { StoppableProgram } from "./programs.ts";

const maxMemoryGiB = 5;
const allNodesGiB = 16;
/** An idle machine needs 24 s. */
const readySeconds = 600;

export type Installation = Pick<NodeSoftware, "kubeProxy" | "mode" | "taints" | "images">;

export async function nodesAreReady(cluster: Cluster): Promise<void> {
  await eventually(cluster, "all nodes are ready", readySeconds, async () => {
    const listed = await kubectl(cluster, "get", "nodes", "--no-headers");
    const ready = (listed ?? "").split("\n").filter((line) => / Ready /.test(line));
    return ready.length === cluster.nodeNames.length;
  });
}

/** Starts a node's kernel. Nothing from an earlier boot is kept. */
export function startNode(
  cluster: LabCluster,
  node: NodeAddresses,
  installation: Installation,
): StoppableProgram {
  const { kubernetes, packages, kernel, network } = cluster;
  const folder = join(cluster.folder, node.name);
  mkdirSync(folder, { recursive: true });
  const files = nodeFiles(node, {
    ...installation,
    ...{ network, folder, packages },
    credential: (file) => credential(cluster, file),
    project: join(import.meta.dirname, "../.."),
    modules: kernel.modules,
    kubelet: kubernetes.program("kubelet"),
    pauseImage: kubernetes.pauseImage,
  });
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  const share = Math.floor(allNodesGiB / network.nodes.length);
  const memoryGiB = Math.min(maxMemoryGiB, share);
  const parameters = [
    ...[`mem=${memoryGiB}G`, "root=/dev/root", "rootfstype=hostfs", "ro", "quiet"],
    ...[`init=${join(import.meta.dirname, "node-init.sh")}`, `NODE_FOLDER=${folder}`],
    ...[`uml_dir=${folder}/`, "con=null", "con0=null,fd:1", "con1=null,fd:1"],
    `vec0:transport=tap,ifname=${node.tap},depth=128`,
  ];
  // As in test/lab/lab-kernel.ts: a PID namespace, so that the kernel's processes end together, and a /dev/shm as large
  // as RAM.
  const isolate = [
    "unshare",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount",
    "--propagation",
    "private",
  ];
  const script = 'mount -t tmpfs -o size=100% node /dev/shm && "$@"; exit';
  const pinned = ["taskset", "-c", String(allowedCpu(node.index)), kernel.binary, ...parameters];
  return cluster.programs.start(
    node.name,
    inNamespace(...isolate, "sh", "-c", script, "sh", ...pinned),
    {
      log: join(folder, "console.log"),
      environment: { ...kernelEnvironment(), HOME: folder },
      // All files of a node are removed after the run.
      signal: "SIGKILL",
    },
  );
}
