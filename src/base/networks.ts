import { type Cidr, cidrText, type IpAddress, parseCidr } from "./ip.ts";

/** Networks of which one may contain an address. The time to find out depends on how many prefix lengths they have. */
export class Networks {
  /** The same for equal networks. */
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
