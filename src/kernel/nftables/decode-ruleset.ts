/** Decodes chains, rules, sets and elements in dumps. linux/netfilter/nf_tables.h. */
import { bytes, text, u32be } from "../../netlink/attribute-field.ts";
import { attributeSet, list, nested, type ValuesOf } from "../../netlink/attribute-set.ts";
import { ByteReader } from "../../netlink/byte-reader.ts";
import type { MessageWriter } from "../../netlink/message.ts";
import type {
  NftBaseChain,
  NftElement,
  NftExpression,
  NftHook,
  NftSet,
  NftVerdict,
} from "../../state/nft-rule.ts";

/** NFTA_CHAIN_*, NFTA_HOOK_*. */
const chainAttributes = attributeSet({
  table: text(1),
  name: text(3),
  hook: nested(
    4,
    attributeSet({
      ...{ number: u32be(1), priority: u32be(2), device: text(3) },
      devices: list(4, text(1)),
    }),
  ),
  policy: u32be(5),
  type: text(7),
});

/** NFTA_EXPR_*. */
const expressionFields = { name: text(1), data: bytes(2) };
/** NFTA_RULE_*. */
const ruleAttributes = attributeSet({
  table: text(1),
  chain: text(2),
  expressions: list(4, nested(1, attributeSet(expressionFields))),
});

/** NFTA_SET_*. */
const setAttributes = attributeSet({
  table: text(1),
  name: text(2),
  flags: u32be(3),
  keyLength: u32be(5),
});

/** NFTA_DATA_*, NFTA_VERDICT_*. */
const dataAttributes = attributeSet({
  value: bytes(1),
  verdict: nested(2, attributeSet({ code: u32be(1), chain: text(2) })),
});
type Data = ReturnType<typeof dataAttributes.decode>;

/** NFTA_SET_ELEM_LIST_*, NFTA_SET_ELEM_*. */
const elementListAttributes = attributeSet({
  table: text(1),
  set: text(2),
  elements: list(
    3,
    nested(
      1,
      attributeSet({
        key: nested(1, dataAttributes),
        data: nested(2, dataAttributes),
        flags: u32be(3),
        end: nested(10, dataAttributes),
      }),
    ),
  ),
});

/** NF_INET_*. */
const hooks: readonly NftHook[] = [
  ...(["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING", "INGRESS"] as const),
];
/**
 * The hooks of families that do not see packets at the IP layer: NF_NETDEV_* and NF_BR_*. Numbers 0 to 4 of NF_BR_*
 * have the same meaning as those of NF_INET_*.
 */
const linkHooks: Readonly<Record<string, readonly NftHook[]>> = {
  netdev: ["INGRESS", "EGRESS"],
  bridge: ["INGRESS", "INGRESS", "FORWARD", "EGRESS", "EGRESS"],
};

/** Undefined if the chain is not a base chain. `family` is the family name that `nft` prints. */
export function decodeBaseChain(body: ByteReader, family: string): NftBaseChain | undefined {
  const { table = "", name = "", hook, policy, type } = chainAttributes.decode(body);
  if (hook?.number === undefined) return undefined;
  const at = (linkHooks[family] ?? hooks)[hook.number];
  if (at === undefined) return undefined;
  const { priority = 0, device, devices = [] } = hook;
  return {
    ...{ table: `${family} ${table}`, name, hook: at, priority: priority | 0 },
    isDropPolicy: policy === 0,
    ...(type === "nat" ? { isNat: true } : {}),
    ...(family === "bridge"
      ? { isBridge: true }
      : at === "INGRESS" || at === "EGRESS"
        ? { devices: device === undefined ? devices : [device] }
        : {}),
  };
}

export interface DecodedRule {
  readonly chain: string;
  readonly expressions: readonly NftExpression[];
}

export function decodeRule(body: ByteReader): DecodedRule {
  const { chain = "", expressions = [] } = ruleAttributes.decode(body);
  return { chain, expressions: expressions.map(decodeExpression) };
}

/** NFT_SET_INTERVAL. */
const intervalFlag = 4;

export function decodeSetHeader(
  body: ByteReader,
): Omit<NftSet, "elements"> & { readonly name: string } {
  const { name = "", flags = 0, keyLength = 0 } = setAttributes.decode(body);
  return { name, keyLength, isInterval: (flags & intervalFlag) !== 0 };
}

/** NFT_SET_ELEM_INTERVAL_END. */
const intervalEndFlag = 1;

export function decodeElements(body: ByteReader): readonly NftElement[] {
  const { elements = [] } = elementListAttributes.decode(body);
  return elements.map(({ key, data, flags = 0, end }) => {
    const verdict = verdictOf(data);
    return {
      key: bytesOf(key),
      isEnd: (flags & intervalEndFlag) !== 0,
      ...(end === undefined ? {} : { end: bytesOf(end) }),
      ...(verdict === undefined ? {} : { verdict }),
    };
  });
}

/** In every request, the table is attribute 1 and the set is attribute 2. */
export function writeNames(
  writer: MessageWriter,
  names: { readonly table?: string; readonly set?: string },
): void {
  elementListAttributes.encode(writer, names);
}

/** The attributes of each kind of expression. Each kind has its own numbers. */
const tables = {
  meta: attributeSet({ register: u32be(1), key: u32be(2) }),
  ct: attributeSet({ register: u32be(1), key: u32be(2) }),
  payload: attributeSet({ register: u32be(1), base: u32be(2), offset: u32be(3), length: u32be(4) }),
  fib: attributeSet({ register: u32be(1), result: u32be(2), flags: u32be(3) }),
  cmp: attributeSet({ register: u32be(1), operator: u32be(2), data: nested(3, dataAttributes) }),
  range: attributeSet({
    ...{ register: u32be(1), operator: u32be(2) },
    ...{ first: nested(3, dataAttributes), last: nested(4, dataAttributes) },
  }),
  bitwise: attributeSet({
    ...{ from: u32be(1), register: u32be(2), operation: u32be(6) },
    ...{ mask: nested(4, dataAttributes), xor: nested(5, dataAttributes) },
  }),
  lookup: attributeSet({ set: text(1), register: u32be(2), verdict: u32be(3), flags: u32be(5) }),
  /** NFTA_TARGET_*: an iptables target. */
  target: attributeSet({ name: text(1) }),
  immediate: attributeSet({ register: u32be(1), data: nested(2, dataAttributes) }),
};

const operators = ["==", "!=", "<", "<=", ">", ">="] as const;
const effects: ReadonlySet<string> = new Set([
  ...["counter", "log", "notrack", "objref", "dynset", "last", "dup"],
]);
/** Expressions that end a rule: they translate the packet, or pass it to something else. */
const ends: ReadonlySet<string> = new Set([
  ...["nat", "redir", "tproxy", "queue", "synproxy", "fwd"],
]);

function decodeExpression({
  name = "",
  data = new Uint8Array(),
}: ValuesOf<typeof expressionFields>): NftExpression {
  const unknown = { kind: "unknown", name, isEnd: ends.has(name) } as const;
  if (effects.has(name)) return { kind: "effect", name };
  if (name === "reject") return { kind: "verdict", verdict: { kind: "reject" } };
  if (name === "masq") return { kind: "verdict", verdict: { kind: "masquerade" } };
  const decode = decoders[name];
  return decode?.(new ByteReader(data)) ?? unknown;
}

const decoders: Readonly<Record<string, (reader: ByteReader) => NftExpression | undefined>> = {
  meta: (reader) => loadOf("meta", tables.meta.decode(reader)),
  ct: (reader) => loadOf("ct", tables.ct.decode(reader)),
  payload(reader) {
    const { register, base = 0, offset = 0, length = 0 } = tables.payload.decode(reader);
    const from = ([undefined, "network", "transport"] as const)[base];
    if (register === undefined || from === undefined) return undefined;
    return { kind: "load", source: { from, offset, length }, register: registerAt(register) };
  },
  fib(reader) {
    const { register = 0, result = 0, flags = 0 } = tables.fib.decode(reader);
    return { kind: "load", source: { from: "fib", result, flags }, register: registerAt(register) };
  },
  cmp(reader) {
    const { register = 0, operator = 0, data } = tables.cmp.decode(reader);
    const value = bytesOf(data);
    return {
      kind: "compare",
      register: registerAt(register),
      operator: operators[operator] ?? "==",
      value,
    };
  },
  range(reader) {
    const { register = 0, operator, first, last } = tables.range.decode(reader);
    const bounds = { first: bytesOf(first), last: bytesOf(last) };
    return { kind: "range", register: registerAt(register), isNegated: operator === 1, ...bounds };
  },
  bitwise(reader) {
    const { from = 0, register = 0, operation = 0, mask, xor } = tables.bitwise.decode(reader);
    if (operation !== 0) return undefined;
    const registers = { from: registerAt(from), register: registerAt(register) };
    return { kind: "mask", ...registers, mask: bytesOf(mask), xor: bytesOf(xor) };
  },
  lookup(reader) {
    const { set = "", register = 0, verdict, flags = 0 } = tables.lookup.decode(reader);
    // This map writes to a different register, such as an address for dnat.
    if (verdict !== undefined && verdict !== 0) return undefined;
    const isNegated = (flags & 1) === 1;
    return {
      kind: "lookup",
      set,
      register: registerAt(register),
      isNegated,
      hasVerdict: verdict === 0,
    };
  },
  target(reader) {
    const { name = "" } = tables.target.decode(reader);
    if (name === "REJECT") return { kind: "verdict", verdict: { kind: "reject" } };
    const isEnd = /^(?:[DS]NAT|REDIRECT|MASQUERADE|TPROXY|NFQUEUE|NETMAP)$/.test(name);
    return isEnd ? { kind: "unknown", name, isEnd } : { kind: "effect", name };
  },
  immediate(reader) {
    const { register, data } = tables.immediate.decode(reader);
    const verdict = register === 0 ? verdictOf(data) : undefined;
    // Values in other registers are arguments of a later expression.
    if (register !== 0) return { kind: "effect", name: "immediate" };
    return verdict === undefined ? undefined : { kind: "verdict", verdict };
  },
};

/** An expression without a register writes a value instead of reading it. */
function loadOf(
  from: "meta" | "ct",
  { register, key = 0 }: { readonly register?: number; readonly key?: number },
): NftExpression {
  if (register === undefined) return { kind: "effect", name: from };
  return { kind: "load", source: { from, key }, register: registerAt(register) };
}

/** NFT_REG_1 to NFT_REG_4 have 16 bytes each. NFT_REG32_00 (8) and later ones have 4 bytes each in the same space. */
function registerAt(register: number): number {
  return register < 8 ? register * 16 : (register - 4) * 4;
}

/** Copies the value, because decoded bytes share memory with the reply. */
function bytesOf(data: Data | undefined): Uint8Array {
  return Uint8Array.from(data?.value ?? []);
}

/** Undefined for a verdict that is not evaluated, such as queueing. */
function verdictOf(data: Data | undefined): NftVerdict | undefined {
  const { code = 0, chain = "" } = data?.verdict ?? { code: Number.NaN };
  switch (code | 0) {
    case 0:
      return data?.verdict === undefined ? undefined : { kind: "drop" };
    case 1:
      return { kind: "accept" };
    case -3:
      return { kind: "jump", chain };
    case -4:
      return { kind: "goto", chain };
    case -5:
      return { kind: "return" };
    default:
      return undefined;
  }
}
