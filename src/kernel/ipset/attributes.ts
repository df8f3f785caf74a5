/** IPSET_ATTR_*, linux/netfilter/ipset/ip_set.h. Numbers marked networkOrder are refused without that bit. */
import {
  bytes,
  type Field,
  networkOrder,
  text,
  u8,
  u16be,
  u32be,
} from "../../netlink/attribute-field.ts";
import { type AttributeSet, attributeSet, list, nested } from "../../netlink/attribute-set.ts";

/** IPSET_ATTR_IPADDR_*: 4 or 16 bytes. */
export interface AddressValue {
  readonly ipv4?: Uint8Array;
  readonly ipv6?: Uint8Array;
}

const addressAttributes: AttributeSet<AddressValue> = attributeSet({
  ipv4: networkOrder(bytes(1, 4)),
  ipv6: networkOrder(bytes(2, 16)),
});

/** One member. Which are present follows from the set type. */
export interface EntryValues {
  readonly address?: AddressValue;
  readonly port?: number;
  readonly protocolNumber?: number;
  /** Comes back in the error of a refused entry: its position in the message, from 1. */
  readonly lineNumber?: number;
  readonly secondAddress?: AddressValue;
  readonly secondPrefixLength?: number;
}

const entryAttributes: AttributeSet<EntryValues> = attributeSet({
  address: nested(1, addressAttributes),
  port: networkOrder(u16be(4)),
  protocolNumber: u8(7),
  lineNumber: networkOrder(u32be(9)),
  secondAddress: nested(20, addressAttributes),
  secondPrefixLength: u8(21),
});

/** Of a set: given at create, and what the kernel counts. */
export interface ParameterValues {
  readonly firstPort?: number;
  readonly lastPort?: number;
  /** Entries vanish after this time unless they have one of their own. */
  readonly timeoutSeconds?: number;
  /** IPSET_FLAG_WITH_COUNTERS 8, _COMMENT 16, _FORCEADD 32, _SKBINFO 64. */
  readonly optionFlags?: number;
  readonly hashSize?: number;
  readonly maxElements?: number;
  readonly netmask?: number;
  readonly elementCount?: number;
  readonly references?: number;
}

const parameterAttributes: AttributeSet<ParameterValues> = attributeSet({
  firstPort: networkOrder(u16be(4)),
  lastPort: networkOrder(u16be(5)),
  timeoutSeconds: networkOrder(u32be(6)),
  optionFlags: networkOrder(u32be(8)),
  hashSize: networkOrder(u32be(18)),
  maxElements: networkOrder(u32be(19)),
  netmask: u8(20),
  elementCount: u32be(24),
  references: u32be(25),
});

/** What stands behind the nfnetlink header, in requests and in replies. */
export interface CommandValues {
  readonly protocolVersion?: number;
  readonly name?: string;
  readonly typeName?: string;
  readonly revision?: number;
  readonly family?: number;
  readonly flags?: number;
  readonly parameters?: ParameterValues;
  readonly entries?: readonly EntryValues[];
  readonly lineNumber?: number;
}

/** IPSET_ATTR_DATA as a member of IPSET_ATTR_ADT. */
const entryField: Field<EntryValues> = nested(7, entryAttributes);

export const commandAttributes: AttributeSet<CommandValues> = attributeSet({
  protocolVersion: u8(1),
  name: text(2),
  /** In a swap: the second set's name. */
  typeName: text(3),
  revision: u8(4),
  family: u8(5),
  flags: u32be(6),
  parameters: nested(7, parameterAttributes),
  lineNumber: networkOrder(u32be(9)),
  entries: list(8, entryField),
});
