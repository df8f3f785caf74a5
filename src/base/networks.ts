import { type Cidr, cidrText, type IpAddress, parseCidr } from "./ip.ts";

/** A set of networks. Lookup cost depends on the number of different prefix lengths, not on the number of networks. */
export class Networks {
  /** A text that is equal for equal sets of networks. */
  readonly text: string;
  readonly #texts: ReadonlySet<string>;
  readonly #prefixLengths: ReadonlySet<number>;

  constructor(networks: readonly Cidr[] = []) {
    this.#texts = new Set(networks.map(cidrText));
    this.#prefixLengths = new Set(networks.map(({ prefixLength }) => prefixLength));
    this.text = [...this.#texts].sort().join(",");
  }

  /** Whether a network contains the address. Ignores networks whose prefix has `bits` bits or more. */
  contains(address: IpAddress, bits: number = Number.POSITIVE_INFINITY): boolean {
    for (const prefixLength of this.#prefixLengths) {
      if (prefixLength >= bits) continue;
      const network = parseCidr(`${address}/${prefixLength}`);
      if (network !== undefined && this.#texts.has(cidrText(network))) return true;
    }
    return false;
  }
}

/** Omits networks that a larger network of the list contains. */
export function widestNetworks(networks: readonly Cidr[]): readonly Cidr[] {
  if (networks.length < 2) return networks;
  const all = new Networks(networks);
  return networks.filter(({ address, prefixLength }) => !all.contains(address, prefixLength));
}
