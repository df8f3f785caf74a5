/** Weights that a third party gave to real servers of ours, and that stay: `ipvsadm -e … -w 0` is a drain by hand. */
import type { DesiredView } from "../../plan/desired-state.ts";
import { type RealServer, realServerKey, sameRealServer } from "../../state/real-server.ts";
import type { CachedServers } from "../observed/cached-state.ts";
import type { Differences } from "../observed/difference.ts";

/** `keep` leaves a weight as a third party set it, as kube-proxy does; `repair` sets it right as any drift. */
export type ManualWeightPolicy = "keep" | "repair";

/** A real server of ours whose weight a third party set. */
export interface ManualWeight {
  readonly virtualServerKey: string;
  readonly realServerKey: string;
  readonly weight: number;
  /** What planning wanted at that time. Once it wants something else, that counts. */
  readonly plannedWeight: number;
  readonly planned: RealServer;
}

/** What planning asks. */
export interface ManualWeightsView {
  /** Whether `present` has a weight that stays, though another one is planned. */
  isKept(virtualServerKey: string, planned: RealServer, present: RealServer): boolean;
}

/** What a sync knows before it plans. */
export interface WeightsInput {
  readonly differences: Differences;
  readonly desired: Pick<DesiredView, "virtualServer">;
  readonly cached: CachedServers;
  /** A write of ours has an unknown outcome: nothing that is found now was surely set by hand. */
  readonly mayBeOurs: boolean;
  readonly isOwned: (virtualServerKey: string) => boolean;
}

/**
 * Remembers them until the plan changes, the real server leaves, a third party sets another weight, or this program
 * ends: kube-proxy, too, writes the weight of a real server when it makes it and at its own start, and then no more.
 */
export class ManualWeights implements ManualWeightsView {
  readonly #byServer = new Map<string, Map<string, ManualWeight>>();

  /** Takes up the weights that were observed to differ from what was written, and forgets those that are over. */
  update(policy: ManualWeightPolicy, input: WeightsInput): void {
    if (policy === "repair") {
      this.#byServer.clear();
      return;
    }
    this.#endOthers(input);
    if (!input.mayBeOurs) this.#note(input);
  }

  #note({ differences, desired, isOwned }: WeightsInput): void {
    for (const [key, { before, after }] of differences.servers) {
      const wanted = desired.virtualServer(key);
      if (before === undefined || after === undefined || wanted === undefined) continue;
      if (!isOwned(key)) continue;
      const known = new Map(before.realServers.map((one) => [realServerKey(one), one]));
      const planned = new Map(wanted.realServers.map((one) => [realServerKey(one), one]));
      for (const found of after.realServers) {
        const serverKey = realServerKey(found);
        const [was, wish] = [known.get(serverKey), planned.get(serverKey)];
        if (was === undefined || wish === undefined || !isSetByHand(was, found, wish)) continue;
        this.#keep({
          virtualServerKey: key,
          realServerKey: serverKey,
          weight: found.weight,
          plannedWeight: wish.weight,
          planned: wish,
        });
      }
    }
  }

  #endOthers({ desired, cached }: WeightsInput): void {
    for (const [key, ofServer] of this.#byServer) {
      const wanted = desired.virtualServer(key)?.realServers ?? [];
      const present = cached.get(key)?.realServers ?? [];
      for (const serverKey of ofServer.keys()) {
        const isOne = (one: RealServer): boolean => realServerKey(one) === serverKey;
        const [planned, found] = [wanted.find(isOne), present.find(isOne)];
        const isOver =
          planned === undefined || found === undefined || !this.isKept(key, planned, found);
        if (isOver) ofServer.delete(serverKey);
      }
      if (ofServer.size === 0) this.#byServer.delete(key);
    }
  }

  isKept(virtualServerKey: string, planned: RealServer, present: RealServer): boolean {
    const kept = this.#byServer.get(virtualServerKey)?.get(realServerKey(planned));
    if (kept === undefined || planned.forwardingMethod !== present.forwardingMethod) return false;
    return kept.weight === present.weight && sameRealServer(kept.planned, planned);
  }

  get all(): readonly ManualWeight[] {
    return [...this.#byServer.values()].flatMap((ofServer) => [...ofServer.values()]);
  }

  #keep(weight: ManualWeight): void {
    const ofServer = this.#byServer.get(weight.virtualServerKey) ?? new Map<string, ManualWeight>();
    this.#byServer.set(weight.virtualServerKey, ofServer.set(weight.realServerKey, weight));
  }
}

/** Only the weight: where the forwarding method differs, nothing of it was meant as a drain. */
function isSetByHand(was: RealServer, found: RealServer, planned: RealServer): boolean {
  if (found.forwardingMethod !== planned.forwardingMethod) return false;
  return found.weight !== was.weight && found.weight !== planned.weight;
}
