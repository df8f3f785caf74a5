import type { SelectingService, SliceEndpoint } from "./objects.ts";

type Hints = Pick<SliceEndpoint, "zoneHints" | "nodeHints">;

/**
 * For whom an endpoint is, where the Service says that its traffic is to stay near: the zone of the endpoint, or its node
 * and zone. Only of endpoints that are ready; without a known zone there is no hint. Pure.
 */
export function hintsOf(
  { trafficDistribution }: Pick<SelectingService, "trafficDistribution">,
  { isReady, zone, nodeName }: Pick<SliceEndpoint, "isReady" | "zone" | "nodeName">,
): Hints {
  if (trafficDistribution === undefined || !isReady) return {};
  const zoneHints = zone === undefined ? {} : { zoneHints: [zone] };
  if (trafficDistribution === "zone" || nodeName === "") return zoneHints;
  return { ...zoneHints, nodeHints: [nodeName] };
}
