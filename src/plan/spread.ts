/**
 * In which order a node makes the real servers of a virtual server. The kernel puts each new one first in its list, and
 * there `rr` begins and `lc` finds the first of equals: where all nodes make them in one order, the first connections
 * of all nodes meet at one endpoint.
 */
import type { Endpoint } from "../model/endpoints.ts";

/**
 * The same endpoints in the order of this node. Pure. The place of each follows from the node's name and the endpoint:
 * it is the same after a restart, and no endpoint that comes or goes moves another one.
 */
export function spreadByNode(
  endpoints: readonly Endpoint[],
  nodeName: string,
): readonly Endpoint[] {
  if (endpoints.length < 2) return endpoints;
  const seed = hashOf(nodeName, 0);
  return endpoints
    .map((endpoint) => ({ endpoint, place: hashOf(endpoint.key, seed) }))
    .sort((one, other) => one.place - other.place || byKey(one.endpoint, other.endpoint))
    .map(({ endpoint }) => endpoint);
}

function byKey(one: Endpoint, other: Endpoint): number {
  return one.key < other.key ? -1 : 1;
}

/** 32 bits: FNV-1a, then the last steps of MurmurHash3, without which texts that end alike stay neighbors. */
function hashOf(text: string, seed: number): number {
  let hash = seed ^ 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
