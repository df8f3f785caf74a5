import type { IpAddress } from "../../base/ip.ts";
import type { RecordOf } from "../decode/decode-object.ts";
import type { LastKnownRecords } from "../last-known-records.ts";
import type { ResourceKind, ServedAddresses } from "../source.ts";

type AddressesOf<T> = (record: T) => readonly IpAddress[];

/** By which addresses a list is judged. There is one Node; to lose it takes away nothing that is served. */
const addressesOf: { readonly [Kind in ResourceKind]: AddressesOf<RecordOf[Kind]> } = {
  services: ({ clusterIps, externalIps, loadBalancerIps }) => [
    ...clusterIps,
    ...externalIps,
    ...loadBalancerIps,
  ],
  endpointslices: ({ endpoints }) => endpoints.map(({ address }) => address),
  nodes: () => [],
};

/**
 * A list as it arrives: the listener is notified of new objects at once; what takes addresses away waits until the list is
 * complete and believed.
 */
export class ListedObjects<Kind extends ResourceKind> {
  /** Every address in the list. */
  readonly addresses: Set<IpAddress> = new Set<IpAddress>();
  readonly #records: LastKnownRecords<RecordOf[Kind]>;
  readonly #addressesOf: AddressesOf<RecordOf[Kind]>;
  readonly #names = new Set<string>();
  readonly #waiting = new Map<string, RecordOf[Kind] | undefined>();

  constructor(kind: Kind, records: LastKnownRecords<RecordOf[Kind]>) {
    this.#addressesOf = addressesOf[kind];
    this.#records = records;
  }

  put(name: string, record: RecordOf[Kind] | undefined): void {
    const before = this.#records.get(name);
    const addresses = record === undefined ? [] : this.#addressesOf(record);
    for (const address of addresses) this.addresses.add(address);
    this.#names.add(name);
    if (before !== undefined && this.#loses(before, addresses)) this.#waiting.set(name, record);
    else this.#records.put(name, record);
  }

  /** Tells what waits, and the removal of everything that is not in the list. */
  takeAway(): void {
    for (const [name, record] of this.#waiting) this.#records.put(name, record);
    for (const name of this.#records.names()) {
      if (!this.#names.has(name)) this.#records.put(name, undefined);
    }
  }

  #loses(before: RecordOf[Kind], addresses: readonly IpAddress[]): boolean {
    const present = new Set(addresses);
    return this.#addressesOf(before).some((address) => !present.has(address));
  }
}

/** The addresses that a list is compared with: of the last known objects, and of what was served before startup. */
export function knownAddresses<Kind extends ResourceKind>(
  kind: Kind,
  records: LastKnownRecords<RecordOf[Kind]>,
  servedBefore: ServedAddresses | undefined,
): ReadonlySet<IpAddress> {
  const known = new Set<IpAddress>();
  for (const record of records.records()) {
    for (const address of addressesOf[kind](record)) known.add(address);
  }
  if (kind === "services") addAll(known, servedBefore?.services);
  if (kind === "endpointslices") addAll(known, servedBefore?.endpointslices);
  return known;
}

function addAll(known: Set<IpAddress>, addresses: Iterable<IpAddress> = []): void {
  for (const address of addresses) known.add(address);
}
