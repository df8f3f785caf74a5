/** Services that do not get what they ask for, in words for log and metric. Pure. */
import type { LogKeys } from "../base/log.ts";
import type { DesiredState } from "../plan/desired-state.ts";
import type { ReservedReason } from "../plan/options.ts";

export type ConflictReason = "claimed-by-older-service" | "foreign-virtual-server" | ReservedReason;

export const conflictReasons: readonly ConflictReason[] = [
  "claimed-by-older-service",
  "foreign-virtual-server",
  "node-address",
  "gateway-address",
  "broadcast-address",
  "api-server-address",
];

export interface Conflict {
  /** One with the same key was told already. */
  readonly key: string;
  readonly reason: ConflictReason;
  readonly event: string;
  readonly keys: LogKeys;
}

/** Lists all of them. `contestedServers`: keys of virtual servers that others have. */
export function conflictsOf(
  desired: DesiredState,
  contestedServers: readonly string[],
): readonly Conflict[] {
  return [
    ...desired.lostClaims().map(({ virtualServer, winner, loser }): Conflict => {
      return {
        key: `${virtualServer} ${loser}`,
        reason: "claimed-by-older-service",
        event: "Virtual server is claimed by an older Service",
        keys: { virtualServer, winner, loser },
      };
    }),
    ...contestedServers.map((virtualServer): Conflict => {
      return {
        key: `foreign ${virtualServer}`,
        reason: "foreign-virtual-server",
        event: "Virtual server is not ours and stays; the Service is not served there",
        keys: { virtualServer, servicePort: desired.claimantOf(virtualServer) ?? "" },
      };
    }),
    // One line for each address: it may be in every Service.
    ...desired.reservedAddresses().map(({ address, reason, servicePort }): Conflict => {
      return {
        key: `reserved ${address} ${reason}`,
        reason,
        event: "Address is never bound to kube-ipvs0: the node needs it",
        keys: { address, servicePort },
      };
    }),
  ];
}
