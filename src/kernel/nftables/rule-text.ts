/** Rules in `nft` notation, detailed enough for an operator to recognize them. Pure. */
import { type IpAddress, ipAddressFromBytes } from "../../base/ip.ts";
import type { NftExpression, NftSet, NftSource, NftVerdict } from "../../state/nft-rule.ts";

/** A field of a packet, and how its values are written. */
interface FieldText {
  readonly name: string;
  readonly value: (bytes: Uint8Array) => string;
}

/** `setOf` finds a set of the rule's table. */
export function ruleText(
  expressions: readonly NftExpression[],
  setOf: (name: string) => NftSet | undefined,
): string {
  const fields = new Map<number, FieldText>();
  const masks = new Map<number, Uint8Array>();
  const words: string[] = [];
  for (const one of expressions) {
    const field = "register" in one ? fields.get(one.register) : undefined;
    const { name, value } = field ?? { name: "?", value: hex };
    switch (one.kind) {
      case "load":
        fields.set(one.register, fieldOf(one.source));
        masks.delete(one.register);
        break;
      case "mask":
        fields.set(one.register, fields.get(one.from) ?? { name, value });
        masks.set(one.register, one.mask);
        break;
      case "compare":
        words.push(compareText(one, name, value, masks.get(one.register)));
        break;
      case "range":
        words.push(`${name} ${one.isNegated ? "!= " : ""}${value(one.first)}-${value(one.last)}`);
        break;
      case "lookup": {
        const set = setOf(one.set);
        const end = one.register + (set?.keyLength ?? 1);
        const looked = [...fields].filter(([at]) => at >= one.register && at < end);
        const names = looked.map(([, each]) => each.name).join(" . ");
        const isShown = one.set.startsWith("__") && looked.length === 1;
        const elements = isShown ? elementsText(set, value) : `@${one.set}`;
        const sign = one.isNegated ? "!= " : one.hasVerdict ? "vmap " : "";
        words.push(`${names} ${sign}${elements}`);
        break;
      }
      case "verdict":
        words.push(verdictText(one.verdict));
        break;
      default:
        if (one.name !== "immediate") words.push(one.name);
    }
  }
  return words
    .filter((word) => !/^meta (?:nfproto|l4proto) \S+$/.test(word) || words.length === 1)
    .join(" ");
}

function compareText(
  { operator, value: compared }: Extract<NftExpression, { kind: "compare" }>,
  name: string,
  value: FieldText["value"],
  mask: Uint8Array | undefined,
): string {
  const sign = operator === "==" ? "" : `${operator} `;
  if (mask === undefined) return `${name} ${sign}${value(compared)}`;
  // Tests whether any bit of the mask is set.
  if (operator === "!=" && compared.every((byte) => byte === 0)) return `${name} ${value(mask)}`;
  if (/^ip6? /.test(name)) return `${name} ${sign}${value(compared)}/${prefixLength(mask)}`;
  return `${name} & ${value(mask)} ${operator} ${value(compared)}`;
}

function prefixLength(mask: Uint8Array): number {
  const bits = Array.from(mask, (byte) => byte.toString(2)).join("");
  return bits.replaceAll("0", "").length;
}

const maxShown = 5;

/** For example `{ 80, 443-500 }` or `{ established : accept }`. */
function elementsText(set: NftSet | undefined, value: FieldText["value"]): string {
  const all = (set?.elements ?? []).toSorted((one, other) => Buffer.compare(one.key, other.key));
  const texts = all.flatMap(({ key, end, isEnd, verdict }, index) => {
    if (isEnd) return [];
    const next = all[index + 1]?.key;
    const last = end ?? (set?.isInterval === true && next !== undefined ? before(next) : key);
    const range = Buffer.compare(key, last) === 0 ? "" : `-${value(last)}`;
    return [`${value(key)}${range}${verdict === undefined ? "" : ` : ${verdictText(verdict)}`}`];
  });
  const more = texts.length > maxShown ? ", …" : "";
  return `{ ${texts.slice(0, maxShown).join(", ")}${more} }`;
}

function verdictText(verdict: NftVerdict): string {
  return "chain" in verdict ? `${verdict.kind} ${verdict.chain}` : verdict.kind;
}

/** Returns the preceding number. Numbers are in network order. */
function before(bytes: Uint8Array): Uint8Array {
  const result = Uint8Array.from(bytes);
  for (let at = result.length - 1; at >= 0; at -= 1) {
    result[at] = ((result[at] ?? 0) + 255) % 256;
    if (result[at] !== 255) break;
  }
  return result;
}

/** NFT_META_*. */
const metaNames: Readonly<Record<number, string>> = {
  ...{ 1: "protocol", 3: "mark", 4: "iif", 5: "oif", 6: "iifname", 7: "oifname", 10: "skuid" },
  ...{ 15: "nfproto", 16: "l4proto", 17: "pkttype" },
};
/** NFT_CT_*. */
const ctNames: Readonly<Record<number, string>> = {
  0: "state",
  1: "direction",
  2: "status",
  3: "mark",
};
const ctStates = ["invalid", "established", "related", "new"] as const;

function fieldOf(source: NftSource): FieldText {
  switch (source.from) {
    case "meta": {
      const { key } = source;
      const isName = key === 6 || key === 7;
      const name = metaNames[key];
      return {
        name: isName ? (name ?? "") : `meta ${name ?? key}`,
        value: isName ? nameText : key === 3 ? hostNumber : key >= 15 ? numberText : hex,
      };
    }
    case "ct":
      return {
        name: `ct ${ctNames[source.key] ?? source.key}`,
        value: source.key === 0 ? statesText : source.key === 2 ? statusText : hex,
      };
    case "fib":
      return {
        name: `fib ${source.flags & 1 ? "saddr" : "daddr"} ${source.result === 3 ? "type" : "oif"}`,
        value: source.result === 3 ? addressTypeText : hostNumber,
      };
    case "network":
      return networkField(source.offset, source.length);
    case "transport":
      return transportField(source.offset, source.length);
  }
}

function networkField(offset: number, length: number): FieldText {
  const names: Readonly<Record<string, string>> = {
    ...{ "12": "ip saddr", "16": length === 16 ? "" : "ip daddr", "9": "ip protocol" },
    ...{ "8": "ip6 saddr", "24": "ip6 daddr", "6": "ip6 nexthdr" },
  };
  const name = names[offset];
  if (name === undefined || name === "")
    return { name: `@nh,${offset * 8},${length * 8}`, value: hex };
  if (length === 1 && /proto|nexthdr/.test(name)) return { name, value: numberText };
  return { name, value: (bytes) => addressText(bytes, name.startsWith("ip6") ? 16 : 4, length) };
}

/** A prefix of whole bytes is compared without a mask. */
function addressText(bytes: Uint8Array, size: number, length: number): string {
  const whole = new Uint8Array(size);
  whole.set(bytes.subarray(0, size));
  const address: IpAddress = ipAddressFromBytes(whole);
  return length < size ? `${address}/${length * 8}` : address;
}

function transportField(offset: number, length: number): FieldText {
  const names: Readonly<Record<string, string>> = {
    ...{ "0 2": "th sport", "2 2": "th dport", "13 1": "tcp flags", "0 1": "icmp type" },
  };
  const name = names[`${offset} ${length}`];
  return {
    name: name ?? `@th,${offset * 8},${length * 8}`,
    value: name === undefined ? hex : numberText,
  };
}

function nameText(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  const text = Buffer.from(end < 0 ? bytes : bytes.subarray(0, end)).toString("latin1");
  return JSON.stringify(end < 0 ? `${text}*` : text);
}

/** In network order. */
function numberText(bytes: Uint8Array): string {
  return String(bytes.reduce((sum, byte) => sum * 256 + byte, 0));
}

function hostNumber(bytes: Uint8Array): string {
  const value =
    bytes.length === 4 ? new DataView(Uint8Array.from(bytes).buffer).getUint32(0, true) : 0;
  return `0x${value.toString(16)}`;
}

function statesText(bytes: Uint8Array): string {
  const bits = bytes[0] ?? 0;
  const names = ctStates.filter((_, index) => (bits & (1 << index)) !== 0);
  return [...names, ...((bits & 64) !== 0 ? ["untracked"] : [])].join(",");
}

function statusText(bytes: Uint8Array): string {
  return (bytes[0] ?? 0) === 32 ? "dnat" : hex(bytes);
}

function addressTypeText(bytes: Uint8Array): string {
  const names: Readonly<Record<number, string>> = { 1: "unicast", 2: "local", 3: "broadcast" };
  return names[bytes[0] ?? 0] ?? hex(bytes);
}

function hex(bytes: Uint8Array): string {
  return `0x${Buffer.from(bytes).toString("hex")}`;
}
