import { servicePortName } from "../model/service-port.ts";
import type { RealServer } from "../state/real-server.ts";
import { sameRealServer } from "../state/real-server.ts";
import { sameVirtualServer, virtualServerKey } from "../state/virtual-server.ts";
import type { PlannedVirtualServer, ServicePortPlan } from "./service-port-plan.ts";

/** One service port's wish for a virtual server. */
export interface Claim {
  readonly plan: ServicePortPlan;
  readonly planned: PlannedVirtualServer;
}

/** A claim that lost: the virtual server serves an older Service. */
export interface LostClaim {
  readonly virtualServer: string;
  readonly winner: string;
  readonly loser: string;
}

/**
 * Virtual servers by key, each with everyone who claims it. Two Services may ask for the same address,
 * port and protocol (external IPs, load-balancer IPs): the older one has it, by creation time, then by
 * name, so that the outcome does not depend on the order of events.
 */
export class Claims {
  readonly #claimsByKey = new Map<string, readonly Claim[]>();
  /** Keys with more than one claim; nearly always empty. */
  readonly #contested = new Set<string>();

  /** Puts `next` in the place of `previous` and tells the keys whose winner looks different now. */
  replace(
    previous: ServicePortPlan | undefined,
    next: ServicePortPlan | undefined,
    onChange: (key: string) => void,
  ): void {
    const before = new Map(previous?.virtualServers.map((planned) => [keyOf(planned), planned]));
    for (const planned of next?.virtualServers ?? []) {
      const key = keyOf(planned);
      before.delete(key);
      this.#update(key, { plan: next as ServicePortPlan, planned }, previous, onChange);
    }
    for (const key of before.keys()) this.#update(key, undefined, previous, onChange);
  }

  winner(key: string): PlannedVirtualServer | undefined {
    return this.#claimsByKey.get(key)?.[0]?.planned;
  }

  /** Name of the service port that has a virtual server. */
  winnerName(key: string): string | undefined {
    const claim = this.#claimsByKey.get(key)?.[0];
    return claim === undefined ? undefined : servicePortName(claim.plan.servicePort);
  }

  /** Whether this plan has the virtual server. */
  isWonBy(plan: ServicePortPlan, key: string): boolean {
    return this.#claimsByKey.get(key)?.[0]?.plan === plan;
  }

  /** Other plans that claim a virtual server of this one; nearly always none. */
  rivalsOf(plan: ServicePortPlan): readonly ServicePortPlan[] {
    const claims = plan.virtualServers.flatMap(
      (planned) => this.#claimsByKey.get(keyOf(planned)) ?? [],
    );
    return claims.map((claim) => claim.plan).filter((rival) => rival !== plan);
  }

  keys(): IterableIterator<string> {
    return this.#claimsByKey.keys();
  }

  get size(): number {
    return this.#claimsByKey.size;
  }

  lost(): readonly LostClaim[] {
    return [...this.#contested].flatMap((virtualServer) => {
      const [winner, ...losers] = this.#claimsByKey.get(virtualServer) ?? [];
      if (winner === undefined) return [];
      return losers.map((loser) => ({
        virtualServer,
        winner: servicePortName(winner.plan.servicePort),
        loser: servicePortName(loser.plan.servicePort),
      }));
    });
  }

  #update(
    key: string,
    claim: Claim | undefined,
    previous: ServicePortPlan | undefined,
    onChange: (key: string) => void,
  ): void {
    const before = this.#claimsByKey.get(key) ?? [];
    // An external IP may also be a load-balancer IP of the same Service: one plan claims a key once.
    const others = before.filter(({ plan }) => plan !== previous && plan !== claim?.plan);
    const after = claim === undefined ? others : inOrder(others, claim);
    if (after.length === 0) this.#claimsByKey.delete(key);
    else this.#claimsByKey.set(key, after);
    if (after.length > 1) this.#contested.add(key);
    else this.#contested.delete(key);
    if (!samePlanned(before[0]?.planned, after[0]?.planned)) onChange(key);
  }
}

function keyOf(planned: PlannedVirtualServer): string {
  return virtualServerKey(planned.virtualServer);
}

/** Nearly always one alone: a list that is spread has room for sixteen more. */
function inOrder(others: readonly Claim[], claim: Claim): readonly Claim[] {
  return others.length === 0 ? [claim] : [...others, claim].sort(byAge);
}

function byAge(left: Claim, right: Claim): number {
  const [a, b] = [left.plan.servicePort, right.plan.servicePort];
  if (a.createdAtSeconds !== b.createdAtSeconds) return a.createdAtSeconds - b.createdAtSeconds;
  const [aName, bName] = [servicePortName(a), servicePortName(b)];
  if (aName === bName) return 0;
  return aName < bName ? -1 : 1;
}

function samePlanned(
  left: PlannedVirtualServer | undefined,
  right: PlannedVirtualServer | undefined,
): boolean {
  if (left === undefined || right === undefined) return left === right;
  if (!sameVirtualServer(left.virtualServer, right.virtualServer)) return false;
  return sameRealServers(left.realServers, right.realServers);
}

/** Both lists are sorted, so equal sets are equal lists. */
function sameRealServers(left: readonly RealServer[], right: readonly RealServer[]): boolean {
  if (left === right) return true;
  if (left.length !== right.length) return false;
  return left.every((server, index) => {
    const other = right[index] as RealServer;
    const isSameTarget = server.address === other.address && server.port === other.port;
    return isSameTarget && sameRealServer(server, other);
  });
}
