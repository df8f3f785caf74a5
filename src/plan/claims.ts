import { bySeniority, servicePortName } from "../model/service-port.ts";
import { sameRealServers } from "../state/real-server.ts";
import { sameVirtualServer, virtualServerKey } from "../state/virtual-server.ts";
import type { FrontendKind } from "./frontends.ts";
import type { PlannedVirtualServer, ServicePortPlan } from "./service-port-plan.ts";

/** One service port's wish for a virtual server. */
export interface Claim {
  readonly plan: ServicePortPlan;
  readonly planned: PlannedVirtualServer;
  /** See {@link ranks}; the better one where a Service names its own cluster IP a second time. */
  readonly rank: number;
}

/**
 * Who has written an address decides before age does: the API server allocates cluster IPs and node ports, a
 * controller writes load-balancer IPs into the status, and whoever may edit a Service writes external IPs.
 */
const ranks: Readonly<Record<FrontendKind, number>> = {
  "cluster-ip": 0,
  "node-port": 0,
  "load-balancer": 1,
  "external-ip": 2,
};

/** A claim that lost: the virtual server serves another Service. */
export interface LostClaim {
  readonly virtualServer: string;
  readonly winner: string;
  readonly loser: string;
}

/**
 * Virtual servers by key, each with everyone who claims it. Two Services may ask for the same address,
 * port and protocol: the better rank has it, see {@link ranks}; among equals the older Service, then the first by
 * name. The outcome depends neither on the order of events nor on the node, and is the same after a restart.
 */
export class Claims {
  readonly #claimsByKey = new Map<string, readonly Claim[]>();
  /** Keys with more than one claim; nearly always empty. */
  readonly #contested = new Set<string>();

  /** Puts `next` in the place of `previous` and reports the keys whose winner changed. */
  replace(
    previous: ServicePortPlan | undefined,
    next: ServicePortPlan | undefined,
    onChange: (key: string) => void,
  ): void {
    const before = new Map(previous?.virtualServers.map((planned) => [keyOf(planned), planned]));
    for (const planned of next?.virtualServers ?? []) {
      const key = keyOf(planned);
      before.delete(key);
      const rank = ranks[planned.kind];
      this.#update(key, { plan: next as ServicePortPlan, planned, rank }, previous, onChange);
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

  /** Everyone who claims a virtual server; the first one has it. */
  plansOf(key: string): readonly ServicePortPlan[] {
    return (this.#claimsByKey.get(key) ?? []).map(({ plan }) => plan);
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
    const same = before.find(({ plan }) => plan === claim?.plan);
    const after = claim === undefined ? others : inOrder(others, betterRank(claim, same));
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
  return others.length === 0 ? [claim] : [...others, claim].sort(byRight);
}

function betterRank(claim: Claim, same: Claim | undefined): Claim {
  return same === undefined || same.rank >= claim.rank ? claim : { ...claim, rank: same.rank };
}

function byRight(left: Claim, right: Claim): number {
  if (left.rank !== right.rank) return left.rank - right.rank;
  const [a, b] = [left.plan.servicePort, right.plan.servicePort];
  return bySeniority({ ...a, name: servicePortName(a) }, { ...b, name: servicePortName(b) });
}

function samePlanned(
  left: PlannedVirtualServer | undefined,
  right: PlannedVirtualServer | undefined,
): boolean {
  if (left === undefined || right === undefined) return left === right;
  if (!sameVirtualServer(left.virtualServer, right.virtualServer)) return false;
  return sameRealServers(left.realServers, right.realServers);
}
