/** Two Services that claim the same external IP and port. In a folder of manifests, the earlier one owns it. */
import { type ApiObject, endpointSlice, service } from "./objects.ts";

const address = "203.0.113.20";

/** Returns two Services with this endpoint. */
export function rivalServices(endpoint: string): readonly ApiObject[] {
  return [
    { name: "earlier", clusterIps: ["10.96.0.31"] },
    { name: "later", clusterIps: ["10.96.0.32"] },
  ].flatMap(({ name, clusterIps }) => [
    service({ name, clusterIps, spec: { externalIPs: [address] } }),
    endpointSlice({ service: name, endpoints: [endpoint] }),
  ]);
}

/** See `judgedConflicts`. */
export const judgedRivals: string = `warn: default/later: TCP ${address}:80 is served for Service default/earlier, whose manifest sorts first (claimed-by-another-service); give Service default/later a different address or port`;
