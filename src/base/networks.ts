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

  contains(address: IpAddress): boolean {
    for (const prefixLength of this.#prefixLengths) {
      const network = parseCidr(`${address}/${prefixLength}`);
      if (network !== undefined && this.#texts.has(cidrText(network))) return true;
    }
    return false;
  }
}
