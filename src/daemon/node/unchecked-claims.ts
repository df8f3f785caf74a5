import type { ServiceName, ServiceRecord } from "../../api/objects.ts";
import type { IpAddress } from "../../base/ip.ts";

/** A Service before and after a change. Undefined if it did not exist or was deleted. */
export type ServiceChange = readonly [
  previous: ServiceRecord | undefined,
  current: ServiceRecord | undefined,
];

export const claimKinds = ["externalIps", "loadBalancerIps"] as const;
export type ClaimKind = (typeof claimKinds)[number];

/** Addresses that are not served to Services that claim them in this way. */
export type PendingAddresses = Readonly<Record<ClaimKind, ReadonlySet<IpAddress>>>;

/** An external IP that a Service names, and that is pending until a list of Nodes shows that no other Node has it. */
export interface WaitingClaim {
  readonly service: ServiceName;
  readonly address: IpAddress;
}

/**
 * Removes pending addresses from Services before planning. These must first be compared with other Nodes' addresses.
 */
export class UncheckedClaims {
  /** Services that have pending addresses, in two versions: with and without those addresses. */
  readonly #services = new Map<
    ServiceName,
    { readonly whole: ServiceRecord; readonly admitted: ServiceRecord }
  >();

  /** All pending external IPs. */
  get waiting(): readonly WaitingClaim[] {
    return [...this.#services].flatMap(([service, { whole, admitted }]) => {
      const served = new Set(admitted.externalIps);
      const pending = whole.externalIps.filter((address) => !served.has(address));
      return pending.map((address) => ({ service, address }));
    });
  }

  /** Returns the change for planning, without pending addresses. */
  admit([previous, current]: ServiceChange, pending: PendingAddresses): ServiceChange {
    const name = (current ?? previous)?.name;
    if (name === undefined) return [previous, current];
    const before = this.#services.get(name)?.admitted ?? previous;
    const admitted = current === undefined ? undefined : admittedPart(current, pending);
    if (current === undefined || admitted === undefined || admitted === current) {
      this.#services.delete(name);
    } else this.#services.set(name, { whole: current, admitted });
    return [before, admitted];
  }

  /** Returns the changes for planning after addresses were removed from `pending`. */
  recheck(pending: PendingAddresses): readonly ServiceChange[] {
    return [...this.#services.values()]
      .filter(
        ({ whole, admitted }) =>
          addressCount(admittedPart(whole, pending)) > addressCount(admitted),
      )
      .map(({ whole }) => this.admit([undefined, whole], pending));
  }
}

/** The Service without its pending addresses. Returns the same object if it has none. */
function admittedPart(service: ServiceRecord, pending: PendingAddresses): ServiceRecord {
  if (addressCount(service) === 0) return service;
  const externalIps = service.externalIps.filter((one) => !pending.externalIps.has(one));
  const loadBalancerIps = service.loadBalancerIps.filter(
    (one) => !pending.loadBalancerIps.has(one),
  );
  const admitted = { ...service, externalIps, loadBalancerIps };
  return addressCount(admitted) === addressCount(service) ? service : admitted;
}

function addressCount({ externalIps, loadBalancerIps }: ServiceRecord): number {
  return externalIps.length + loadBalancerIps.length;
}
