import type { ServiceName, ServiceRecord } from "../../api/objects.ts";
import type { IpAddress } from "../../base/ip.ts";

/** A Service as it was before, and as it is now. */
export type ServiceChange = readonly [
  previous: ServiceRecord | undefined,
  current: ServiceRecord | undefined,
];

/** An external IP that is not served before a list of Nodes says that no other Node has it. */
export interface WaitingClaim {
  readonly service: ServiceName;
  readonly address: IpAddress;
}

/** Services without the external IPs that wait to be compared with the addresses of other Nodes. */
export class UncheckedClaims {
  /** Those with such an external IP. */
  readonly #services = new Map<
    ServiceName,
    { readonly whole: ServiceRecord; readonly admitted: ServiceRecord }
  >();

  /** External IPs that wait. */
  get waiting(): readonly WaitingClaim[] {
    return [...this.#services].flatMap(([service, { whole, admitted }]) =>
      whole.externalIps
        .filter((address) => !admitted.externalIps.includes(address))
        .map((address) => ({ service, address })),
    );
  }

  /** Returns the change as planning must see it. */
  admit([previous, current]: ServiceChange, unchecked: ReadonlySet<IpAddress>): ServiceChange {
    const name = (current ?? previous)?.name ?? "";
    const before = this.#services.get(name)?.admitted ?? previous;
    const admitted = current === undefined ? undefined : admittedPart(current, unchecked);
    if (current === undefined || admitted === undefined || admitted === current) {
      this.#services.delete(name);
    } else this.#services.set(name, { whole: current, admitted });
    return [before, admitted];
  }

  /** Returns the changes for planning once fewer addresses are unchecked. */
  recheck(unchecked: ReadonlySet<IpAddress>): readonly ServiceChange[] {
    return [...this.#services.values()]
      .filter(({ whole, admitted }) => {
        const { externalIps } = admittedPart(whole, unchecked);
        return externalIps.length > admitted.externalIps.length;
      })
      .map(({ whole }) => this.admit([undefined, whole], unchecked));
  }
}

/** The same object if nothing is unchecked. */
function admittedPart(service: ServiceRecord, unchecked: ReadonlySet<IpAddress>): ServiceRecord {
  const { externalIps } = service;
  if (unchecked.size === 0 || !externalIps.some((address) => unchecked.has(address)))
    return service;
  return { ...service, externalIps: externalIps.filter((address) => !unchecked.has(address)) };
}
