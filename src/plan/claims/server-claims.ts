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

  /** Puts `next` in the place of `previous` and reports what became of each key that either claims. */
  replace(
    previous: ServicePortPlan | undefined,
    next: ServicePortPlan | undefined,
    onChange: (key: string, change: WinnerChange<ServerClaim>) => void,
  ): void {
    const before = new Set(previous?.virtualServers.map(keyOf));
    for (const planned of next?.virtualServers ?? none) {
      const key = keyOf(planned);
      before.delete(key);
      const rank = claimRanks[planned.kind];
      const claim = { plan: next as ServicePortPlan, planned, rank };
      onChange(key, this.#claims.update(key, claim, previous));
    }
    for (const key of before) onChange(key, this.#claims.update(key, undefined, previous));
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

  hold(key: string, holder: Holder): WinnerChange<ServerClaim> {
    return this.#claims.hold(key, holder);
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

/** Whether the virtual server is to be the same before and after. */
export function isSamePlanned({ before, after }: WinnerChange<ServerClaim>): boolean {
  const [left, right] = [before?.planned, after?.planned];
  if (left === undefined || right === undefined) return left === right;
  if (!sameVirtualServer(left.virtualServer, right.virtualServer)) return false;
  return sameRealServers(left.realServers, right.realServers);
}
