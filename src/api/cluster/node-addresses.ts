import type { Clock } from "../../base/clock.ts";
import type { IpAddress } from "../../base/ip.ts";
import type { ApiConnection } from "../connection.ts";
import { decodeObject } from "../decode/decode-object.ts";
import { TextPool } from "../decode/flat-text.ts";
import type { NodeRecord } from "../objects.ts";
import type { NodeAddresses } from "../source.ts";
import { type ListHead, parsed, readListHead } from "./answers.ts";
import { readPages } from "./list-pages.ts";
import { ListSplitter } from "./list-splitter.ts";
import { readBody } from "./watched-request.ts";
import { collections } from "./watched-resources.ts";

const allNodes = collections.nodes;

/** A Node with all its images is some tens of kilobytes. */
const nodeLimitBytes = 8 * 1024 * 1024;
const idleMs = 60_000;
const pageSize = "500";

/**
 * Lists the addresses and weights of all Nodes: from the API server's cache, in pages where it makes some, one object in memory at
 * a time. A watch would bring every status report of every kubelet to every node. Throws ApiError.
 */
export async function listNodeAddresses(
  parts: { readonly connection: ApiConnection; readonly clock: Clock },
  signal: AbortSignal,
  noteWeight: (nodeName: string, weight: number) => void = () => {},
): Promise<NodeAddresses> {
  const addresses = new Map<string, readonly IpAddress[]>();
  const note = ({ name, addresses: own, weight }: NodeRecord): void => {
    addresses.set(name, own);
    if (weight !== undefined) noteWeight(name, weight);
  };
  await readPages(allNodes, (token) => listPage(parts, { token, signal }, note));
  return addresses;
}

async function listPage(
  parts: { readonly connection: ApiConnection; readonly clock: Clock },
  { token, signal }: { readonly token: string; readonly signal: AbortSignal },
  note: (record: NodeRecord) => void,
): Promise<ListHead> {
  const splitter = new ListSplitter(nodeLimitBytes);
  const from = token === "" ? { resourceVersion: "0" } : { continue: token };
  const query = { limit: pageSize, ...from };
  const request = { resource: allNodes, query, idleMs, signal };
  // What is wrong with another node's object is its own kube-ipvs' to say.
  const into = { refuse: () => {}, texts: new TextPool() };
  await readBody(parts, request, (chunk) => {
    for (const item of splitter.push(chunk)) {
      const record = decodeObject("nodes", item, into)?.record;
      if (record !== undefined) note(record);
    }
  });
  if (signal.aborted) return { resourceVersion: "", continueToken: "" };
  const envelope = parsed(allNodes, () => splitter.end());
  return readListHead(allNodes, envelope);
}
