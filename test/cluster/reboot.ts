/** Drains a node, stops its kernel, and boots it again, optionally with a new address. */
import { type Cluster, eventually, tryKubectl } from "./cluster.ts";
import { ip, type NodeAddresses } from "./network.ts";
import type { StoppableProgram } from "./programs.ts";

/** A booting node imports images while other nodes are busy. */
const returnSeconds = 900;

export async function drain(cluster: Cluster, { name }: NodeAddresses): Promise<void> {
  await asOperator(cluster, "drain", name, "--ignore-daemonsets", "--force", "--timeout=5m");
}

/** Stops the node's kernel and boots it with `node.address`. Returns when the node is ready and schedulable again. */
export async function reboot(
  cluster: Cluster,
  node: NodeAddresses,
  kernel: StoppableProgram,
  start: (node: NodeAddresses) => StoppableProgram,
): Promise<StoppableProgram> {
  const before = await stateOf(cluster, node.name);
  await kernel.stop();
  if (before.address !== node.address) leaveAddress(before.address, node);
  const started = start(node);
  await eventually(cluster, `${node.name} is back at ${node.address}`, returnSeconds, async () => {
    const now = await stateOf(cluster, node.name);
    return now.isReady && now.bootId !== before.bootId && now.address === node.address;
  });
  await asOperator(cluster, "uncordon", node.name);
  return started;
}

/**
 * The other node still routes packets for this node's pods to the old address, so that address must now belong to a
 * router.
 */
function leaveAddress(old: string, { pods, address }: NodeAddresses): void {
  ip("address", "add", `${old}/24`, "dev", "bridge");
  ip("route", "replace", pods, "via", address);
}

async function asOperator(cluster: Cluster, ...args: readonly string[]): Promise<void> {
  const { failure } = await tryKubectl(cluster, ...args);
  if (failure !== "") throw new Error(`kubectl ${args.join(" ")}: ${failure}`);
}

interface NodeState {
  readonly isReady: boolean;
  readonly bootId: string;
  readonly address: string;
}

async function stateOf(cluster: Cluster, name: string): Promise<NodeState> {
  const ready = '{.status.conditions[?(@.type=="Ready")].status}';
  const address = '{.status.addresses[?(@.type=="InternalIP")].address}';
  const path = `jsonpath=${ready} {.status.nodeInfo.bootID} ${address}`;
  const { output } = await tryKubectl(cluster, "get", "node", name, "-o", path);
  const [isReady = "", bootId = "", internal = ""] = output.split(" ");
  return { isReady: isReady === "True", bootId, address: internal };
}
