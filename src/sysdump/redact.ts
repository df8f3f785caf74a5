/** Removes secrets from texts and, on request, replaces addresses and names consistently. Pure. */
import { createHmac } from "node:crypto";
import {
  familyOf,
  hostPrefixLength,
  type IpAddress,
  ipAddressFromBytes,
  ipAddressToBytes,
  isLoopback,
  parseIpAddress,
  wildcardAddresses,
} from "../base/ip.ts";
import { parseJson } from "../base/parse-json.ts";

/** Bearer tokens, JSON Web Tokens, private keys, and passwords in URLs. The parts should not contain any. */
const secrets: readonly RegExp[] = [
  /(?<=\bBearer\s+)[\w.~+/=-]+/gi,
  /\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/g,
  /-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----/gs,
  /(?<=:\/\/[^\s/:@]*:)[^\s/@]+(?=@)/g,
];

export function withoutSecrets(text: string): string {
  return secrets.reduce((rest, secret) => rest.replaceAll(secret, "REMOVED"), text);
}

/** Names that every cluster has. */
const commonNames: ReadonlySet<string> = new Set(["default", "kubernetes", "kube-system"]);
const addressPattern =
  /(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[\da-f]*:[\da-f:]*(?:\d{1,3}(?:\.\d{1,3}){3})?)(?:\/(\d{1,3})(?!\d))?(?![\w])/gi;
const hardwarePattern = /\b[\da-f]{2}(?::[\da-f]{2}){5}\b/gi;

/** Replaces addresses so that two of them share as many leading bits as before, and names by numbered ones. */
export class Redactor {
  readonly #key: Uint8Array;
  readonly #names: ReadonlyMap<string, string>;
  readonly #namePattern: RegExp | undefined;
  /** Whether the bit after a prefix is inverted. Most addresses share their prefixes. */
  readonly #inverted = new Map<string, boolean>();

  /** `key` is random and not stored. `names` are replaced wherever they are whole words. */
  constructor(key: Uint8Array, names: Iterable<string>) {
    this.#key = key;
    const all = [...new Set(names)].filter((name) => name !== "" && !commonNames.has(name));
    this.#names = new Map(all.map((name, index) => [name, `name-${index + 1}`]));
    const longestFirst = all.toSorted((one, other) => other.length - one.length);
    const words = longestFirst.map((name) => name.replaceAll(/[^\w-]/g, "\\$&")).join("|");
    this.#namePattern =
      all.length === 0 ? undefined : new RegExp(`(?<![\\w-])(?:${words})(?![\\w-])`, "g");
  }

  text(text: string): string {
    const named =
      this.#namePattern === undefined
        ? text
        : text.replaceAll(this.#namePattern, (name) => this.#names.get(name) ?? name);
    return named
      .replaceAll(hardwarePattern, "00:00:00:00:00:00")
      .replaceAll(addressPattern, (whole, prefixLength?: string) => {
        const [written = ""] = whole.split("/");
        const address = parseIpAddress(written);
        if (address === undefined) return whole;
        const replaced = this.#address(address, Number(prefixLength ?? "128"));
        return prefixLength === undefined ? replaced : `${replaced}/${prefixLength}`;
      });
  }

  /** The text of a JSON part: its keys stay. */
  json(text: string): string {
    const replaced = (_: string, value: unknown): unknown =>
      typeof value === "string" ? this.text(value) : value;
    return `${JSON.stringify(parseJson(text), replaced, 2)}\n`;
  }

  /** Each bit is inverted or not, depending on the bits before it (Crypto-PAn). Host bits of a network stay zero. */
  #address(address: IpAddress, prefixLength: number): string {
    const family = familyOf(address);
    if (isLoopback(address) || address === wildcardAddresses[family]) return address;
    const length = hostPrefixLength(family);
    const bytes = ipAddressToBytes(address);
    const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
    const isNetwork = prefixLength < length && !bits.slice(prefixLength).includes("1");
    const changedBits = isNetwork ? prefixLength : length;
    const changed = bytes.map((byte, index) => {
      let result = byte;
      for (let bit = index * 8; bit < Math.min(index * 8 + 8, changedBits); bit += 1) {
        if (this.#isInverted(`${family} ${bits.slice(0, bit)}`)) result ^= 0x80 >> (bit % 8);
      }
      return result;
    });
    return ipAddressFromBytes(changed);
  }

  #isInverted(prefix: string): boolean {
    let isInverted = this.#inverted.get(prefix);
    if (isInverted === undefined) {
      const [first = 0] = createHmac("sha256", this.#key).update(prefix).digest();
      isInverted = first % 2 === 1;
      this.#inverted.set(prefix, isInverted);
    }
    return isInverted;
  }
}
