import { isIP } from "node:net";
import { type IpAddress, parseIpAddress } from "../../base/ip.ts";
import type { ServerEndpoint } from "../source.ts";

/** Resolves a hostname. Rejects if that is currently impossible. */
export type LookUp = (hostname: string) => Promise<readonly { readonly address: string }[]>;

/** The known addresses and the port of the API server's URL. */
export class ServerAddresses {
  readonly #hostname: string;
  readonly #port: number;
  readonly #lookUp: LookUp;
  #known: readonly IpAddress[] = [];
  #isAsking = false;

  constructor(url: string, lookUp: LookUp) {
    const { hostname, port, protocol } = new URL(url);
    this.#hostname = hostname.replace(/^\[|\]$/g, "");
    this.#port = port !== "" ? Number(port) : protocol === "http:" ? 80 : 443;
    this.#lookUp = lookUp;
  }

  /**
   * Returns the currently known addresses and, for a hostname, starts another DNS lookup. If the lookup fails, the last
   * result remains.
   */
  current(): readonly ServerEndpoint[] {
    const isAddress = isIP(this.#hostname) > 0;
    if (!isAddress && !this.#isAsking) void this.#ask();
    const addresses = isAddress ? addressesOf([{ address: this.#hostname }]) : this.#known;
    return addresses.map((address) => ({ address, port: this.#port }));
  }

  async #ask(): Promise<void> {
    this.#isAsking = true;
    try {
      this.#known = addressesOf(await this.#lookUp(this.#hostname));
    } catch {
      // The connection reports name lookup errors.
    } finally {
      this.#isAsking = false;
    }
  }
}

function addressesOf(answers: readonly { readonly address: string }[]): readonly IpAddress[] {
  return answers.flatMap(({ address }) => parseIpAddress(address) ?? []).sort();
}
