import type { IpAddress } from "../../base/ip.ts";
import { decodeObject } from "../decode/decode-object.ts";
import { TextPool } from "../decode/flat-text.ts";
import type { NodeAddresses } from "../source.ts";
import { type ListConnection, listItems } from "./list-pages.ts";
import { collections } from "./watched-resources.ts";

/**
 * Lists the addresses and weights of all Nodes: from the API server's cache, in pages where it makes some, one object in memory at
 * a time. A watch would bring every status report of every kubelet to every node. Throws ApiError.
 */
export async function listNodeAddresses(
  connection: ListConnection,
  signal: AbortSignal,
  noteWeight: (nodeName: string, weight: number) => void = () => {},
): Promise<NodeAddresses> {
  const all = new Map<string, readonly IpAddress[]>();
  // What is wrong with another node's object is its own kube-ipvs' to say.
  const into = { refuse: () => {}, texts: new TextPool() };
  await listItems(connection, { resource: collections.nodes, signal }, (item) => {
    const record = decodeObject("nodes", item, into)?.record;
    if (record === undefined) return;
    const { name, addresses, weight } = record;
    all.set(name, addresses);
    if (weight !== undefined) noteWeight(name, weight);
  });
  return all;
}
