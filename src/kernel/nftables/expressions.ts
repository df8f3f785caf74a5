/** The nf_tables expressions that our rules consist of. Pure. linux/netfilter/nf_tables.h. */
import { endianness } from "node:os";
import { hostPrefixLength, type IpFamily } from "../../base/ip.ts";
import { NESTED_BIT } from "../../netlink/attribute-field.ts";
import type { MessageWriter } from "../../netlink/message.ts";

/** The value of an attribute: a number in network order, text, raw bytes, or nested attributes. */
type Value = number | string | Uint8Array | Attributes;
export interface Attributes extends ReadonlyArray<readonly [type: number, value: Value]> {}

/** NFTA_EXPR_NAME and NFTA_EXPR_DATA. */
export interface Expression {
  readonly name: string;
  readonly data: Attributes;
}

export function writeAttributes(writer: MessageWriter, attributes: Attributes): void {
  for (const [type, value] of attributes) {
    const isNested = Array.isArray(value);
    const start = writer.beginAttribute(isNested ? type | NESTED_BIT : type);
    if (typeof value === "number") writer.u32be(value);
    else if (typeof value === "string") writer.text(value);
    else if (value instanceof Uint8Array) writer.bytes(value);
    else writeAttributes(writer, value);
    writer.endAttribute(start);
  }
}

/** Expressions as the items of a list attribute. */
export function expressionItems(expressions: readonly Expression[]): Attributes {
  return expressions.map(({ name, data }) => [
    1,
    [
      [1, name],
      [2, data],
    ],
  ]);
}

export function expression(name: string, ...data: Attributes): Expression {
  return { name, data };
}

/** NFT_REG32_00. Each register has four bytes. A value may use several consecutive registers. */
export const firstRegister = 8;
/** NFT_REG_VERDICT. */
const verdictRegister = 0;

/** NFT_PAYLOAD_NETWORK_HEADER and NFT_PAYLOAD_TRANSPORT_HEADER. */
export const payloadBases = { network: 1, transport: 2 } as const;
/** NFT_META_*. */
export const metaKeys = { mark: 3, inName: 6, protocol: 16 } as const;
/** NF_*, and NFT_* as unsigned numbers. */
export const verdicts = { drop: 0, accept: 1, jump: 0xfffffffd, return: 0xfffffffb } as const;

export type End = "src" | "dst";

/** Offsets in the IP header. */
const addressOffsets: Readonly<Record<IpFamily, Readonly<Record<End, number>>>> = {
  IPv4: { src: 12, dst: 16 },
  IPv6: { src: 8, dst: 24 },
};

export function addressBytes(family: IpFamily): number {
  return hostPrefixLength(family) / 8;
}

export function loadPayload(
  base: number,
  offset: number,
  length: number,
  register: number = firstRegister,
): Expression {
  return expression("payload", [1, register], [2, base], [3, offset], [4, length]);
}

export function loadAddress(family: IpFamily, end: End, register?: number): Expression {
  const offset = addressOffsets[family][end];
  return loadPayload(payloadBases.network, offset, addressBytes(family), register);
}

export function loadPort(end: End, register?: number): Expression {
  return loadPayload(payloadBases.transport, end === "src" ? 0 : 2, 2, register);
}

export function meta(key: number, register: number = firstRegister): Expression {
  return expression("meta", [1, register], [2, key]);
}

/** NFT_CMP_EQ, NFT_CMP_NEQ, NFT_CMP_LTE and NFT_CMP_GTE. */
const comparisons = { "==": 0, "!=": 1, "<=": 3, ">=": 5 } as const;

/** `how` is a comparison operator, or a boolean that says whether the values must differ. */
export function compare(
  value: Uint8Array,
  how: boolean | keyof typeof comparisons = false,
): Expression {
  const comparison = typeof how === "string" ? how : how ? "!=" : "==";
  return expression("cmp", [1, firstRegister], [2, comparisons[comparison]], [3, [[1, value]]]);
}

export function bitwise(
  mask: Uint8Array,
  xor: Uint8Array = new Uint8Array(mask.length),
): Expression {
  return expression(
    "bitwise",
    [1, firstRegister],
    [2, firstRegister],
    [3, mask.length],
    [4, [[1, mask]]],
    [5, [[1, xor]]],
  );
}

export function verdict(code: number, chain?: string): readonly Expression[] {
  const data: Attributes =
    chain === undefined
      ? [[1, code]]
      : [
          [1, code],
          [2, chain],
        ];
  return [expression("immediate", [1, verdictRegister], [2, [[2, data]]])];
}

/** A number in the host's byte order, as in a register. */
export function word(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value >>> 0, endianness() === "LE");
  return bytes;
}
