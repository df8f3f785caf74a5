import { isIP } from "node:net";
import { type IpAddress, parseIpAddress } from "../../base/ip.ts";

/** Looks a host name up; rejects where that is not possible now. */
export type LookUp = (hostname: string) => Promise<readonly { readonly address: string }[]>;

/** The addresses behind the API server's URL, as far as they are known. */
export class ServerAddresses {
  readonly #hostname: string;
  readonly #lookUp: LookUp;
  #known: readonly IpAddress[] = [];
  #isAsking = false;

  constructor(url: string, lookUp: LookUp) {
    this.#hostname = new URL(url).hostname.replace(/^\[|\]$/g, "");
    this.#lookUp = lookUp;
  }

  /** What is known now. A name is looked up again behind it; while it cannot be, the last answer counts. */
  current(): readonly IpAddress[] {
    if (isIP(this.#hostname) > 0) return addressesOf([{ address: this.#hostname }]);
    if (!this.#isAsking) void this.#ask();
    return this.#known;
  }

  async #ask(): Promise<void> {
    this.#isAsking = true;
    try {
      this.#known = addressesOf(await this.#lookUp(this.#hostname));
    } catch {
      // The connection tells what is wrong with the name.
    } finally {
      this.#isAsking = false;
    }
  }
}

function addressesOf(answers: readonly { readonly address: string }[]): readonly IpAddress[] {
  return answers.flatMap(({ address }) => parseIpAddress(address) ?? []).sort();
}
