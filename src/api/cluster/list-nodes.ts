import { decodeObject } from "../decode/decode-object.ts";
import { TextPool } from "../decode/flat-text.ts";
import type { NodeRecord } from "../objects.ts";
import type { Nodes } from "../source.ts";
import { type ListConnection, listItems } from "./list-pages.ts";
import { collections } from "./watched-resources.ts";

/**
 * Lists all Nodes from the API server's cache, in pages if the server supports them. Only one object is in memory at a
 * time, and only these `labels` are kept. A watch would send every kubelet's status updates to every node. Throws
 * ApiError.
 */
export async function listNodes(
  connection: ListConnection,
  signal: AbortSignal,
  labels: ReadonlySet<string> = new Set(),
): Promise<Nodes> {
  const all = new Map<string, NodeRecord>();
  // Ignores invalid fields, because each node's own kube-ipvs reports those of its Node.
  const into = { refuse: () => {}, texts: new TextPool() };
  await listItems(connection, { resource: collections.nodes, signal }, (item) => {
    const record = decodeObject("nodes", item, into)?.record;
    if (record === undefined) return;
    const kept = Object.entries(record.labels ?? {}).filter(([name]) => labels.has(name));
    all.set(record.name, { ...record, labels: Object.fromEntries(kept) });
  });
  return all;
}
