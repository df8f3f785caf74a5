/** Describes Service conflicts for logs, metrics and Events. Pure. */
import {
  type ConflictReason,
  conflictReasons,
  foreignReason,
  lostReason,
} from "../../answer/reasons.ts";
import type { ServiceName } from "../../api/objects.ts";
import { hostPort } from "../../base/ip.ts";
import type { LogKeys } from "../../base/log.ts";
import { toServiceName } from "../../base/service-name.ts";
import type { LimitedService } from "../../model/shares.ts";
import type { ClaimReason, LostClaim } from "../../plan/claims/claim.ts";
import type { OwnedReservedAddress } from "../../plan/frontends.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import type { WaitingClaim } from "../node/unchecked-claims.ts";

export interface Conflict {
  /** A conflict with the same key is reported only once. */
  readonly key: string;
  readonly reason: ConflictReason;
  readonly event: string;
  readonly keys: LogKeys;
  /** The Service that loses the conflict. */
  readonly service: ServiceName;
  /** Which address or port is not served for the Service, and why. */
  readonly note: string;
  /** What the operator can do. */
  readonly remedy: string;
}

/** The claims of Services, and the reasons why claims are not served. */
export interface Claimed {
  readonly limitedServices: Iterable<LimitedService>;
  readonly desired: {
    readonly claims: {
      lost(): readonly LostClaim[];
      reserved(): readonly OwnedReservedAddress[];
    };
    /** The service port that claims a virtual server. Undefined in modes without virtual servers. */
    claimantOf?(virtualServer: ServerKey): string | undefined;
  };
  /** External IPs that are pending until a list of Nodes arrives. */
  readonly waitingClaims: readonly WaitingClaim[];
  /** Health-check node ports that another Service owns. */
  readonly lostHealthPorts: readonly LostClaim[];
}

/** Lists all conflicts. `foreignServers` are the keys of claimed virtual servers that belong to a third party. */
export function conflictsOf(
  { desired, lostHealthPorts, limitedServices, waitingClaims }: Claimed,
  foreignServers: readonly ServerKey[],
): readonly Conflict[] {
  return [
    ...desired.claims.lost().map(claimConflict),
    ...lostHealthPorts.map(healthPortConflict),
    ...foreignServers.map((virtualServer): Conflict => {
      const servicePortName = desired.claimantOf?.(virtualServer) ?? "";
      const service = serviceOf(servicePortName);
      return {
        key: `foreign ${virtualServer}`,
        reason: foreignReason,
        event: "Foreign virtual server occupies a Service address",
        keys: { virtualServer, servicePortName },
        service,
        note: `${virtualServer} is a virtual server of other software on this node, so kube-ipvs keeps it and does not serve the Service there`,
        remedy: `remove it with ipvsadm -D, or give Service ${service} a different address or port`,
      };
    }),
    ...desired.claims.reserved().map(reservedConflict),
    ...waitingClaims.map(waitingConflict),
    ...[...limitedServices].map(limitConflict),
  ];
}

/** Reports one conflict per address, because every Service may name the same address. */
function reservedConflict({
  address,
  reason,
  isServed,
  port,
  servicePort: servicePortName,
}: OwnedReservedAddress): Conflict {
  const service = serviceOf(servicePortName);
  const place = port === undefined ? address : hostPort(address, port);
  return {
    key: `reserved ${place} ${reason}`,
    reason,
    event: isServed
      ? "Address is never bound to kube-ipvs0 because the node needs it"
      : "Service address is not served because the node needs it",
    keys: { address, ...(port === undefined ? {} : { port }), servicePortName },
    service,
    note: `${place} is not ${isServed ? "bound" : "served"} on this node: ${conflictReasons[reason].text}`,
    remedy: `give Service ${service} a different address`,
  };
}

/** An external IP is pending because it is unknown whether another Node has the address. */
function waitingConflict({ service, address }: WaitingClaim): Conflict {
  return {
    key: `waiting ${service} ${address}`,
    reason: "nodes-not-listed",
    event: "External IP is not served because Nodes cannot be listed",
    keys: { address, service },
    service,
    note: `${address} is not served on this node: it may belong to another Node, but Nodes cannot be listed to check this`,
    remedy: "grant list on nodes, or set kubeIpvs.nodeAddressPeriod: 0s",
  };
}

/** A Service claims an address and port that another Service owns. */
function claimConflict({ virtualServer, winner, loser, reason }: LostClaim): Conflict {
  const service = serviceOf(loser);
  return {
    key: `${virtualServer} ${loser}`,
    reason: lostReason,
    event: "Virtual server is claimed by another Service",
    keys: { virtualServer, winner, loser, claim: reason },
    service,
    note: `${virtualServer} is served for Service ${serviceOf(winner)}, ${claimWords[reason]}`,
    remedy: `give Service ${service} a different address or port`,
  };
}

/** Part of a Service is not served because it exceeds a limit. */
export function limitConflict({ service, limit, demand, share }: LimitedService): Conflict {
  const { name } = service;
  const amounts = (["frontends", "endpoints"] as const).filter(
    (amount) => demand[amount] > share[amount],
  );
  const texts = amounts.map((amount) => `${share[amount]} of ${demand[amount]} ${amount}`);
  const scope = limit === "service-limit" ? "service" : "namespace";
  const settings = amounts.map((amount) => `kubeIpvs.${scope}${settingNames[amount]}`);
  return {
    key: `${limit} ${name}`,
    reason: limit,
    event: "Service exceeds a limit; part of it is not served",
    keys: { service: name, frontends: demand.frontends, endpoints: demand.endpoints },
    service: name,
    note: `at most ${texts.join(" and ")} are served because of ${settings.join(" and ")}`,
    remedy: `make Service ${name} smaller, or raise the limit`,
  };
}

const settingNames = { frontends: "FrontendLimit", endpoints: "EndpointLimit" } as const;

/**
 * Two Services claim the same health-check node port. The losing Service's load balancers get the owner's answers.
 */
function healthPortConflict(lost: LostClaim): Conflict {
  const { virtualServer: healthCheckNodePort, winner, loser, reason: claim } = lost;
  return {
    ...claimConflict(lost),
    event: "Health-check node port is claimed by another Service",
    keys: { healthCheckNodePort, winner, loser, claim },
  };
}

/** Why the owner, not the losing Service, is served at the address, as a relative clause. */
const claimWords: Readonly<Record<ClaimReason, string>> = {
  "kind-of-address": "whose kind of address takes precedence",
  "held-before": "which owned it before",
  "earlier-claim": "which claimed it first",
  older: "which is older",
  "earlier-manifest": "whose manifest sorts first",
  "earlier-name": "which is equally old but whose name sorts first",
};

/** A service port's name is `namespace/name:port`, or `namespace/name`. */
function serviceOf(servicePortName: string): ServiceName {
  return toServiceName(servicePortName.split(":")[0] ?? "");
}
