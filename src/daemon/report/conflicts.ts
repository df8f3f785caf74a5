/** Services that do not get what they ask for, in words for log, metric and event. Pure. */
import type { ServiceName } from "../../api/objects.ts";
import type { LogKeys } from "../../base/log.ts";
import type { DesiredState } from "../../plan/desired-state.ts";
import type { ReservedReason } from "../../plan/options.ts";

export type ConflictReason =
  | "claimed-by-another-service"
  | "foreign-virtual-server"
  | ReservedReason;

export const conflictReasons: readonly ConflictReason[] = [
  "claimed-by-another-service",
  "foreign-virtual-server",
  "node-address",
  "gateway-address",
  "broadcast-address",
  "api-server-address",
  "other-node-address",
  "link-local-address",
];

export interface Conflict {
  /** One with the same key was reported before. */
  readonly key: string;
  readonly reason: ConflictReason;
  readonly event: string;
  readonly keys: LogKeys;
  /** The Service that does not get it. */
  readonly service: ServiceName;
  /** For people who inspect the Service. */
  readonly note: string;
}

/** Lists all of them. `foreignServers`: keys of virtual servers that a third party has. */
export function conflictsOf(
  desired: DesiredState,
  foreignServers: readonly string[],
): readonly Conflict[] {
  return [
    ...desired.lostClaims().map(({ virtualServer, winner, loser }): Conflict => {
      return {
        key: `${virtualServer} ${loser}`,
        reason: "claimed-by-another-service",
        event: "Virtual server is claimed by another Service",
        keys: { virtualServer, winner, loser },
        service: serviceOf(loser),
        note: `${virtualServer} is served for Service ${serviceOf(winner)}, which has a better claim; give this one another address`,
      };
    }),
    ...foreignServers.map((virtualServer): Conflict => {
      const servicePortName = desired.claimantOf(virtualServer) ?? "";
      return {
        key: `foreign ${virtualServer}`,
        reason: "foreign-virtual-server",
        event: "Foreign virtual server keeps an address of a Service",
        keys: { virtualServer, servicePortName },
        service: serviceOf(servicePortName),
        note: `${virtualServer} is a virtual server of other software on this node: it stays, and the Service is not served there`,
      };
    }),
    // One line for each address: it may be in every Service.
    ...desired
      .reservedAddresses()
      .map(({ address, reason, servicePort: servicePortName }): Conflict => {
        return {
          key: `reserved ${address} ${reason}`,
          reason,
          event: "Address is never bound to kube-ipvs0: the node needs it",
          keys: { address, servicePortName },
          service: serviceOf(servicePortName),
          note: `${address} is not bound on this node: it is ${reservedWords[reason]}; give the Service another address`,
        };
      }),
  ];
}

const reservedWords: Readonly<Record<ReservedReason, string>> = {
  "node-address": "the node's own",
  "gateway-address": "a gateway's of the node",
  "broadcast-address": "a broadcast address of the node",
  "api-server-address": "the API server's",
  "other-node-address": "another Node's",
  "link-local-address": "link-local",
};

/** A service port's name is `namespace/name:port`, or `namespace/name`. */
function serviceOf(servicePortName: string): ServiceName {
  return servicePortName.split(":")[0] ?? "";
}
