/**
 * IPSET_ATTR_*, linux/netfilter/ipset/ip_set.h. Numbers marked `networkOrder` need the byte-order flag; the kernel
 * rejects them without it.
 */
import { familyOf, type IpAddress } from "../../base/ip.ts";
import {
  type Field,
  ipAddress,
  networkOrder,
  text,
  u8,
  u16be,
  u32be,
} from "../../netlink/attribute-field.ts";
import {
  type AttributeSet,
  attributeSet,
  list,
  nested,
  required,
  writeAttribute,
} from "../../netlink/attribute-set.ts";
import type { MessageWriter } from "../../netlink/message.ts";

/** IPSET_ATTR_IPADDR_*. */
const ipv4Field = networkOrder(ipAddress(1, 4));
const ipv6Field = networkOrder(ipAddress(2, 16));
const addressAttributes = attributeSet({ ipv4: ipv4Field, ipv6: ipv6Field });

/** An address inside an attribute that identifies its family. */
function addressField(type: number): Field<IpAddress> {
  return {
    ...nested(type, addressAttributes),
    write: (writer, address) =>
      writeAttribute(writer, familyOf(address) === "IPv4" ? ipv4Field : ipv6Field, address),
    read(reader) {
      const { ipv4, ipv6 } = addressAttributes.decode(reader);
      return required(ipv4 ?? ipv6, "address", reader);
    },
  };
}

/** One set entry. The set type determines which fields are present. */
export interface EntryValues {
  readonly address?: IpAddress;
  readonly port?: number;
  readonly protocolNumber?: number;
  /** Position of the entry in the message, from 1. The kernel returns it in the error for a rejected entry. */
  readonly lineNumber?: number;
  readonly secondAddress?: IpAddress;
  readonly secondPrefixLength?: number;
  /** The prefix length of the first address. Present only in replies. */
  readonly prefixLength?: number;
  /** `noMatchFlag`, or 0. Present only in replies. */
  readonly flags?: number;
}

const entryFields = {
  address: addressField(1),
  port: networkOrder(u16be(4)),
  protocolNumber: u8(7),
  lineNumber: networkOrder(u32be(9)),
  secondAddress: addressField(20),
  secondPrefixLength: u8(21),
  prefixLength: u8(3),
  flags: networkOrder(u32be(8)),
};
const entryAttributes: AttributeSet<EntryValues> = attributeSet(entryFields);

/** `lineNumber` replaces the entry's own line number. */
function writeEntry(writer: MessageWriter, entry: EntryValues, lineNumber: number): void {
  const { address, port, protocolNumber, secondAddress, secondPrefixLength } = entry;
  if (address !== undefined) writeAttribute(writer, entryFields.address, address);
  if (port !== undefined) writeAttribute(writer, entryFields.port, port);
  if (protocolNumber !== undefined)
    writeAttribute(writer, entryFields.protocolNumber, protocolNumber);
  writeAttribute(writer, entryFields.lineNumber, lineNumber);
  if (secondAddress !== undefined) writeAttribute(writer, entryFields.secondAddress, secondAddress);
  if (secondPrefixLength !== undefined)
    writeAttribute(writer, entryFields.secondPrefixLength, secondPrefixLength);
}

/** The parameters with which a set was created, and counters maintained by the kernel. */
export interface ParameterValues {
  readonly firstPort?: number;
  readonly lastPort?: number;
  /** The default timeout, after which entries without their own timeout are removed. */
  readonly timeoutSeconds?: number;
  /** IPSET_FLAG_WITH_COUNTERS 8, _COMMENT 16, _FORCEADD 32, _SKBINFO 64. */
  readonly optionFlags?: number;
  readonly hashSize?: number;
  readonly maxElements?: number;
  readonly netmask?: number;
  readonly bitmask?: IpAddress;
  readonly elementCount?: number;
  readonly references?: number;
}

const parameterAttributes: AttributeSet<ParameterValues> = attributeSet({
  firstPort: networkOrder(u16be(4)),
  lastPort: networkOrder(u16be(5)),
  timeoutSeconds: networkOrder(u32be(6)),
  optionFlags: networkOrder(u32be(8)),
  bitmask: addressField(12),
  hashSize: networkOrder(u32be(18)),
  maxElements: networkOrder(u32be(19)),
  netmask: u8(20),
  elementCount: u32be(24),
  references: u32be(25),
});

/** Everything after the nfnetlink header, in requests and in replies. */
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

/** IPSET_ATTR_DATA inside IPSET_ATTR_ADT. */
const entryField: Field<EntryValues> = nested(7, entryAttributes);

/**
 * Each entry's line number is its position. Entries are written without intermediate objects, because a first sync
 * writes tens of thousands of them.
 */
const entriesField: Field<readonly EntryValues[]> = {
  ...list(8, entryField),
  write(writer, entries) {
    for (const [index, entry] of entries.entries()) {
      const start = writer.beginAttribute(entryField.type | entryField.bits);
      writeEntry(writer, entry, index + 1);
      writer.endAttribute(start);
    }
  },
};

export const commandAttributes: AttributeSet<CommandValues> = attributeSet({
  protocolVersion: u8(1),
  name: text(2),
  /** In a swap request, this is the second set's name. */
  typeName: text(3),
  revision: u8(4),
  family: u8(5),
  flags: u32be(6),
  parameters: nested(7, parameterAttributes),
  lineNumber: networkOrder(u32be(9)),
  entries: entriesField,
});
