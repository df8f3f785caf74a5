import { none } from "../../base/none.ts";
import { servicePortName } from "../../model/service-port.ts";
import { sameRealServers } from "../../state/real-server.ts";
import { sameVirtualServer, virtualServerKey } from "../../state/virtual-server.ts";
import type { PlannedVirtualServer, ServicePortPlan } from "../service-port-plan.ts";
import {
  type Claim,
  claimRanks,
  type Holder,
  type Holders,
  type LostClaim,
  type LostTo,
} from "./claim.ts";
import { Claims, type WinnerChange } from "./claims.ts";

/** One service port's wish for a virtual server. */
export interface ServerClaim extends Claim {
  readonly plan: ServicePortPlan;
  readonly planned: PlannedVirtualServer;
}

/** A virtual server that several Services claim by equal right, with all of them. */
export interface UndecidedClaim {
  readonly key: string;
  readonly claims: readonly ServerClaim[];
}

/** Virtual servers by key, each with everyone who claims it; see {@link Claims} for who has it. */
export class ServerClaims {
  readonly #claims: Claims<ServerClaim>;

  /** `held`: by an earlier run. */
  constructor(held?: Holders) {
    this.#claims = new Claims(held);
  }

  /** Puts `next` in the place of `previous` and reports the keys whose desired virtual server changed. */
  replace(
    previous: ServicePortPlan | undefined,
    next: ServicePortPlan | undefined,
    onChange: (key: string) => void,
  ): void {
    const before = new Map(previous?.virtualServers.map((planned) => [keyOf(planned), planned]));
    const report = (key: string, change: WinnerChange<ServerClaim>): void => {
      if (!samePlanned(change.before?.planned, change.after?.planned)) onChange(key);
    };
    for (const planned of next?.virtualServers ?? none) {
      const key = keyOf(planned);
      before.delete(key);
      const rank = claimRanks[planned.kind];
      const claim = { plan: next as ServicePortPlan, planned, rank };
      report(key, this.#claims.update(key, claim, previous));
    }
    for (const key of before.keys()) report(key, this.#claims.update(key, undefined, previous));
  }

  winner(key: string): PlannedVirtualServer | undefined {
    return this.#claims.winner(key)?.planned;
  }

  /** Name of the service port that has a virtual server. */
  winnerName(key: string): string | undefined {
    const claim = this.#claims.winner(key);
    return claim === undefined ? undefined : servicePortName(claim.plan.servicePort);
  }

  /** Everyone who claims a virtual server; the first one has it. */
  of(key: string): readonly ServerClaim[] {
    return this.#claims.of(key);
  }

  /** Whether this plan has the virtual server. */
  isWonBy(plan: ServicePortPlan, key: string): boolean {
    return this.#claims.winner(key)?.plan === plan;
  }

  /** Other plans that claim a virtual server of this one; nearly always none. */
  rivalsOf(plan: ServicePortPlan): readonly ServicePortPlan[] {
    const claims = plan.virtualServers.flatMap((planned) => this.#claims.of(keyOf(planned)));
    return claims.map((claim) => claim.plan).filter((rival) => rival !== plan);
  }

  keys(): IterableIterator<string> {
    return this.#claims.keys();
  }

  lost(): readonly LostClaim[] {
    return this.#claims.lost();
  }

  /** Who has this virtual server in place of `plan`, and why; undefined: `plan` has it. */
  lostTo(plan: ServicePortPlan, key: string): LostTo | undefined {
    return this.#claims.lostTo(key, (claim) => claim.plan === plan);
  }

  /** See {@link Claims.undecided}. */
  undecided(): readonly UndecidedClaim[] {
    return this.#claims.undecided().map((key) => ({ key, claims: this.of(key) }));
  }

  /** Says whether another virtual server is wanted now. */
  hold(key: string, holder: Holder): boolean {
    const { before, after } = this.#claims.hold(key, holder);
    return !samePlanned(before?.planned, after?.planned);
  }

  /** From now on everyone holds what it has. */
  settle(): void {
    this.#claims.settle();
  }

  /** Who has what several Services claim: what a record has to carry over a restart. */
  contestedHolders(): Holders {
    return this.#claims.contested();
  }
}

function keyOf(planned: PlannedVirtualServer): string {
  return virtualServerKey(planned.virtualServer);
}

function samePlanned(
  left: PlannedVirtualServer | undefined,
  right: PlannedVirtualServer | undefined,
): boolean {
  if (left === undefined || right === undefined) return left === right;
  if (!sameVirtualServer(left.virtualServer, right.virtualServer)) return false;
  return sameRealServers(left.realServers, right.realServers);
}
