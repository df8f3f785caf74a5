import type { Endpoint } from "../../model/endpoints.ts";

/**
 * Why planning did not choose an endpoint: what is left of the table in `model/topology.ts`. `isOnlyLocal`: those that were
 * chosen are the node's own, since the policy says so.
 */
export function notChosenReason(endpoint: Endpoint, isOnlyLocal: boolean): string {
  if (!endpoint.isReady) {
    return endpoint.isServing && endpoint.isTerminating ? "terminating" : "not-ready";
  }
  return isOnlyLocal && !endpoint.isLocal ? "not-local" : "hinted-elsewhere";
}
