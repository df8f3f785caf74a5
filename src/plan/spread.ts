/**
 * The order in which a node creates a virtual server's real servers. The kernel puts each new real server at the head
 * of its list. `rr` starts there, and `lc` picks the first of several equals. If all nodes used the same order, their
 * first connections would all reach the same endpoint.
 */
import type { Endpoint } from "../model/endpoints.ts";

/**
 * Returns the endpoints in this node's order. Pure. An endpoint's position depends only on the node's name and the
 * endpoint. The order therefore survives restarts and does not change when other endpoints are added or removed.
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

/**
 * 32-bit FNV-1a hash, finalized like MurmurHash3. Without finalization, texts with the same ending would have similar
 * hashes.
 */
export function hashOf(text: string, seed: number): number {
  let hash = seed ^ 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
