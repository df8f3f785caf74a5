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
/** IPv6 with an IPv4 address at its end, IPv4, or IPv6, each with or without a prefix length. */
const addressPattern =
  /(?:(?<![a-z\d.:])[\da-f]*:[\da-f:]*:\d{1,3}(?:\.\d{1,3}){3}|(?<![a-z\d.])\d{1,3}(?:\.\d{1,3}){3}|(?<![a-z\d.:])[\da-f]*:[\da-f:]*(?!\.\d))(?:\/(\d{1,3})(?!\d))?(?![a-z\d])/gi;
/** Words that contain a letter. */
const wordPattern = /(?![\d.]+(?![\w-]))[\w-]+(?:\.[\w-]+)*/g;
const hardwarePattern = /\b[\da-f]{2}(?::[\da-f]{2}){5}\b/gi;

/**
 * Replaces names with numbered ones. Replaces addresses so that any two of them share as many leading bits as before.
 */
export class Redactor {
  readonly #key: Uint8Array;
  readonly #names: ReadonlyMap<string, string>;
  /** Hashes of leading bytes, which most addresses have in common. */
  readonly #hashes = new Map<string, Uint8Array>();

  /** `key` is random and not stored. `names` are replaced wherever they are whole words. */
  constructor(key: Uint8Array, names: Iterable<string>) {
    this.#key = key;
    const all = [...new Set(names)].filter((name) => name !== "" && !commonNames.has(name));
    this.#names = new Map(all.map((name, index) => [name, `name-${index + 1}`]));
  }

  text(text: string): string {
    return text
      .replaceAll(wordPattern, (word) => this.#name(word))
      .replaceAll(hardwarePattern, "00:00:00:00:00:00")
      .replaceAll(addressPattern, (whole, prefixLength?: string) => {
        const [written = ""] = whole.split("/");
        const address = parseIpAddress(written);
        if (address === undefined) return whole;
        const replaced = this.#address(address, Number(prefixLength ?? "128"));
        return prefixLength === undefined ? replaced : `${replaced}/${prefixLength}`;
      });
  }

  /** Replaces the longest names in a word, which may be a domain name. */
  #name(word: string): string {
    const parts = word.split(".");
    for (let start = 0; start < parts.length; start += 1) {
      for (let end = parts.length; end > start; end -= 1) {
        const name = this.#names.get(parts.slice(start, end).join("."));
        if (name !== undefined) parts.splice(start, end - start, name);
      }
    }
    return parts.join(".");
  }

  /** Redacts the values of a JSON part, but not its keys. */
  json(text: string): string {
    const replaced = (_: string, value: unknown): unknown =>
      typeof value === "string" ? this.text(value) : value;
    return `${JSON.stringify(parseJson(text), replaced, 2)}\n`;
  }

  /** Inverts each bit or not, depending on the bits before it (Crypto-PAn). Host bits of a network stay zero. */
  #address(address: IpAddress, prefixLength: number): string {
    const family = familyOf(address);
    if (isLoopback(address) || address === wildcardAddresses[family]) return address;
    const bytes = ipAddressToBytes(address);
    const isNetwork = bytes.every(
      (byte, index) => ((byte << Math.max(0, Math.min(8, prefixLength - index * 8))) & 0xff) === 0,
    );
    const changedBits = isNetwork ? prefixLength : hostPrefixLength(family);
    const changed = bytes.map((byte, index) => {
      const inversions = this.#inversionsAfter(`${family} ${bytes.subarray(0, index)}`);
      let result = byte;
      for (let bit = 0; bit < Math.min(8, changedBits - index * 8); bit += 1) {
        // One bit of the hash for each combination of the bits before this one in the byte.
        const node = (1 << bit) | (byte >> (8 - bit));
        if ((((inversions[node >> 3] ?? 0) >> (node & 7)) & 1) === 1) result ^= 0x80 >> bit;
      }
      return result;
    });
    return ipAddressFromBytes(changed);
  }

  #inversionsAfter(prefix: string): Uint8Array {
    let hash = this.#hashes.get(prefix);
    if (hash === undefined) {
      hash = createHmac("sha256", this.#key).update(prefix).digest();
      this.#hashes.set(prefix, hash);
    }
    return hash;
  }
}
