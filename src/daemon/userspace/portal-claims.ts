import type { ServiceName } from "../../api/objects.ts";
import type { Holders } from "../../plan/claims/claim.ts";
import { claimKey, claimsOf } from "../../plan/claims/claimed-keys.ts";
import { type ClaimingPlan, PortClaims } from "../../plan/claims/port-claims.ts";
import type { ServerKey } from "../../state/virtual-server.ts";
import type { ServiceListener } from "../../userspace/service-listeners.ts";

/**
 * Decides which Service owns each address and port in userspace mode, by the same criteria as in other modes. A
 * decision is needed because rules redirect each address and port to a single listener.
 */
export class PortalClaims extends PortClaims<ClaimingPlan> {
  readonly #byService = new Map<ServiceName, ReadonlyMap<string, ClaimingPlan>>();
  readonly #byListener = new Map<string, ClaimingPlan>();

  replaceService(service: ServiceName, listeners: readonly ServiceListener[]): void {
    const before = this.#byService.get(service) ?? new Map<string, ClaimingPlan>();
    const after = new Map(
      listeners.map(({ key, servicePort, reserved, frontends }) => {
        return [key, { servicePort, reserved, claims: claimsOf(servicePort, frontends) }] as const;
      }),
    );
    for (const [key, plan] of after) {
      this.replace(before.get(key), plan);
      this.#byListener.set(key, plan);
    }
    for (const [key, plan] of before) {
      if (after.has(key)) continue;
      this.replace(plan, undefined);
      this.#byListener.delete(key);
    }
    if (after.size === 0) this.#byService.delete(service);
    else this.#byService.set(service, after);
  }

  /** Records that these Services are already served at these addresses. */
  holdAll(holders: Holders<ServerKey>): void {
    for (const [key, holder] of holders) this.hold(key, holder);
  }

  /** Returns the listener without the addresses and node port that other Services own. */
  won(listener: ServiceListener): ServiceListener {
    const plan = this.#byListener.get(listener.key);
    if (plan === undefined) return listener;
    const lost = new Set(
      plan.claims.filter(({ key }) => !this.isWonBy(plan, key)).map(({ key }) => key),
    );
    if (lost.size === 0) return listener;
    const { servicePort, addresses, nodePort } = listener;
    const keys = new Map(
      addresses.map((address) => [
        claimKey(servicePort, { address, port: servicePort.port }),
        address,
      ]),
    );
    const kept = [...keys].filter(([key]) => !lost.has(key)).map(([, address]) => address);
    // A single rule covers all addresses of the node, so a node port that is lost at one address is lost at every
    // address.
    const isNodePortLost = [...lost].some((key) => !keys.has(key));
    return { ...listener, addresses: kept, nodePort: isNodePortLost ? 0 : nodePort };
  }
}
