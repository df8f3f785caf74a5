import type { ServiceName } from "../../api/objects.ts";
import { claimKey, claimsOf } from "../../plan/claims/claimed-keys.ts";
import { type ClaimingPlan, PortClaims } from "../../plan/claims/port-claims.ts";
import type { ServiceListener } from "../../userspace/service-listeners.ts";

/**
 * Who has which address and port of those that Services of mode userspace ask for, by the rule of the other modes. The
 * rules lead to listeners, and to one for each address and port.
 */
export class PortalClaims extends PortClaims<ClaimingPlan> {
  readonly #byService = new Map<ServiceName, ReadonlyMap<string, ClaimingPlan>>();
  readonly #byListener = new Map<string, ClaimingPlan>();

  /** Makes these all listeners of a Service. */
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

  /** The listener without addresses and node port that another Service has. */
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
    // One rule stands for all addresses of the node, and who has the port at one of them has it at all.
    const isNodePortLost = [...lost].some((key) => !keys.has(key));
    return { ...listener, addresses: kept, nodePort: isNodePortLost ? 0 : nodePort };
  }
}
