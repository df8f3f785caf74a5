import type { ServiceName, ServiceRecord } from "../../api/objects.ts";
import type { IpAddress } from "../../base/ip.ts";

/** A Service before and after a change. Undefined if it did not exist or was deleted. */
export type ServiceChange = readonly [
  previous: ServiceRecord | undefined,
  current: ServiceRecord | undefined,
];

/** An external IP that a Service names, and that is pending until a list of Nodes shows that no other Node has it. */
export interface WaitingClaim {
  readonly service: ServiceName;
  readonly address: IpAddress;
}

/**
 * Removes pending external IPs from Services before planning. These IPs must first be compared with other Nodes'
 * addresses.
 */
export class UncheckedClaims {
  /** Services that have pending external IPs, in two versions: with and without those IPs. */
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

  /** Returns the change for planning, without pending external IPs. */
  admit([previous, current]: ServiceChange, unchecked: ReadonlySet<IpAddress>): ServiceChange {
    const name = (current ?? previous)?.name;
    if (name === undefined) return [previous, current];
    const before = this.#services.get(name)?.admitted ?? previous;
    const admitted = current === undefined ? undefined : admittedPart(current, unchecked);
    if (current === undefined || admitted === undefined || admitted === current) {
      this.#services.delete(name);
    } else this.#services.set(name, { whole: current, admitted });
    return [before, admitted];
  }

  /** Returns the changes for planning after addresses have been removed from `unchecked`. */
  recheck(unchecked: ReadonlySet<IpAddress>): readonly ServiceChange[] {
    return [...this.#services.values()]
      .filter(({ whole, admitted }) => {
        const { externalIps } = admittedPart(whole, unchecked);
        return externalIps.length > admitted.externalIps.length;
      })
      .map(({ whole }) => this.admit([undefined, whole], unchecked));
  }
}

/** The Service without its unchecked external IPs. Returns the same object if it has none. */
function admittedPart(service: ServiceRecord, unchecked: ReadonlySet<IpAddress>): ServiceRecord {
  const { externalIps } = service;
  if (unchecked.size === 0 || !externalIps.some((address) => unchecked.has(address)))
    return service;
  return { ...service, externalIps: externalIps.filter((address) => !unchecked.has(address)) };
}
