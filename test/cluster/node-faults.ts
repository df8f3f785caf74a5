/** Faults that reboot the last node. Connections through the other node must stay open. */
import { backendOn } from "./canary.ts";
import { type Cluster, eventually } from "./cluster.ts";
import type { Fault, Faulty } from "./fault-steps.ts";
import { type NodeAddresses, nodes, otherNodeAddress } from "./network.ts";
import { apply } from "./proxy.ts";
import { drain, reboot } from "./reboot.ts";
import { holdNodePorts, nodeAddresses, shopIsOpen, shopObjects } from "./shop.ts";

const last = nodes.length - 1;
const [rebooted] = nodes.slice(last);

export const nodeFaults: readonly Fault[] = [
  nodeFault("reboot", "a node is drained and rebooted", (node) => node),
  nodeFault("move", "a node is drained and rebooted with another address", (node) => ({
    ...node,
    address: otherNodeAddress,
  })),
];

function nodeFault(
  name: string,
  title: string,
  changed: (node: NodeAddresses) => NodeAddresses,
): Fault {
  if (rebooted === undefined) throw new Error("the cluster has no nodes");
  return {
    name,
    title: () => title,
    rebootedNode: rebooted,
    prepare: async ({ cluster }) => {
      await drain(cluster, rebooted);
      await eventually(cluster, `${rebooted.name} has no backends`, 60, () =>
        onlyAnswers(cluster, backendOn(0)),
      );
    },
    inject: async ({ cluster, kernels, startNode }: Faulty) => {
      const kernel = kernels[last];
      if (kernel === undefined) throw new Error(`${rebooted.name} has no kernel`);
      kernels[last] = await reboot(cluster, changed(rebooted), kernel, startNode);
      await apply(cluster, "shop", shopObjects(cluster));
      await shopIsOpen(cluster);
      return undefined;
    },
  };
}

/** Whether new connections to the shop reach only this backend. */
async function onlyAnswers(cluster: Cluster, backend: string): Promise<boolean> {
  const holder = await holdNodePorts(cluster, (await nodeAddresses(cluster)).slice(0, last), 8);
  return (await holder.end()).every(({ name }) => name === backend);
}
