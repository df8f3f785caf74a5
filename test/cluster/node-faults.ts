/** Faults that reboot the last node. Connections through the other node must stay open. */
import { backendOn } from "./canary.ts";
import { type Cluster, eventually, type LabCluster } from "./cluster.ts";
import type { Fault, Faulty } from "./fault-steps.ts";
import { type NodeAddresses, otherNodeAddress } from "./network.ts";
import { apply } from "./proxy.ts";
import { drain, reboot } from "./reboot.ts";
import { holdNodePorts, nodeAddresses, shopIsOpen, shopObjects } from "./shop.ts";

export const nodeFaults: readonly Fault[] = [
  nodeFault("reboot", "a node is drained and rebooted", (node) => node),
  nodeFault("move", "a node is drained and rebooted with a new address", (node) => ({
    ...node,
    address: otherNodeAddress,
  })),
];

function nodeFault(
  name: string,
  title: string,
  changed: (node: NodeAddresses) => NodeAddresses,
): Fault {
  return {
    name,
    title: () => title,
    rebootsLastNode: true,
    prepare: async ({ cluster }) => {
      const node = lastNode(cluster);
      await drain(cluster, node);
      await eventually(cluster, `${node.name} has no backends`, 60, () =>
        onlyAnswers(cluster, backendOn(cluster, 0)),
      );
    },
    inject: async ({ cluster, kernels, startNode }: Faulty) => {
      const node = lastNode(cluster);
      const kernel = kernels.pop();
      if (kernel === undefined) throw new Error(`${node.name} has no kernel`);
      kernels.push(await reboot(cluster, changed(node), kernel, startNode));
      await apply(cluster, "shop", shopObjects(cluster));
      await shopIsOpen(cluster);
      return undefined;
    },
  };
}

function lastNode({ network }: LabCluster): NodeAddresses {
  const node = network.nodes.at(-1);
  if (node === undefined) throw new Error("the cluster has no nodes");
  return node;
}

/** Whether new connections to the shop reach only this backend. */
async function onlyAnswers(cluster: Cluster, backend: string): Promise<boolean> {
  const holder = await holdNodePorts(cluster, (await nodeAddresses(cluster)).slice(0, -1), 8);
  return (await holder.end()).every(({ name }) => name === backend);
}
