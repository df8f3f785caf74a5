/** Reads and writes one attribute's payload. The builders below are the field types in attribute tables. */
import { type IpAddress, ipAddressFromBytes } from "../base/ip.ts";
import type { ByteReader } from "./byte-reader.ts";
import type { MessageWriter } from "./message.ts";

/** NLA_F_NESTED and NLA_F_NET_BYTEORDER; the other 14 bits are the attribute type. linux/netlink.h. */
export const NESTED_BIT = 0x8000;
const NETWORK_ORDER_BIT = 0x4000;
export const TYPE_MASK = 0x3fff;

/** One attribute: its number, and functions that encode and decode its payload. They must not use `this`. */
export interface Field<T> {
  readonly type: number;
  /** NLA_F_* bits set in requests. Replies are accepted with or without them. */
  readonly bits: number;
  /** Exact payload length in bytes. Undefined if the length varies. */
  readonly widthBytes?: number;
  write(this: void, writer: MessageWriter, value: T): void;
  /** Reads the whole payload. The reader ends at the end of the attribute. */
  read(this: void, reader: ByteReader): T;
}

/** Sets NLA_F_NET_BYTEORDER on a number; ipset requires this bit. */
export function networkOrder<T>(field: Field<T>): Field<T> {
  return { ...field, bits: field.bits | NETWORK_ORDER_BIT };
}

export function u8(type: number): Field<number> {
  return {
    ...scalar(type, 1),
    write: (writer, value) => writer.u8(value),
    read: (reader) => reader.u8("u8"),
  };
}

export function u16(type: number): Field<number> {
  return {
    ...scalar(type, 2),
    write: (writer, value) => writer.u16(value),
    read: (reader) => reader.u16("u16"),
  };
}

export function u32(type: number): Field<number> {
  return {
    ...scalar(type, 4),
    write: (writer, value) => writer.u32(value),
    read: (reader) => reader.u32("u32"),
  };
}

/** A number in network order, such as a port. */
export function u16be(type: number): Field<number> {
  return {
    ...scalar(type, 2),
    write: (writer, value) => writer.u16be(value),
    read: (reader) => reader.u16be("u16be"),
  };
}

export function u32be(type: number): Field<number> {
  return {
    ...scalar(type, 4),
    write: (writer, value) => writer.u32be(value),
    read: (reader) => reader.u32be("u32be"),
  };
}

/** UTF-8, written with a trailing NUL, and read up to the first NUL or the end of the payload. */
export function text(type: number): Field<string> {
  return {
    type,
    bits: 0,
    write: (writer, value) => writer.text(value),
    read: (reader) => reader.text("text"),
  };
}

/** Raw bytes. A decoded value shares memory with the reply, so callers that keep it must copy it. */
export function bytes(type: number, widthBytes?: number): Field<Uint8Array> {
  return {
    type,
    bits: 0,
    ...(widthBytes === undefined ? {} : { widthBytes }),
    write: (writer, value) => writer.bytes(value),
    read: (reader) => reader.bytes(reader.remaining, "bytes"),
  };
}

/** An address: 4 or 16 bytes in network order. */
export function ipAddress(type: number, widthBytes?: 4 | 16): Field<IpAddress> {
  return {
    type,
    bits: 0,
    ...(widthBytes === undefined ? {} : { widthBytes }),
    write: (writer, value) => writer.ipAddress(value),
    read: (reader) => ipAddressFromBytes(reader.bytes(reader.remaining, "address")),
  };
}

function scalar(
  type: number,
  widthBytes: number,
): Pick<Field<number>, "type" | "bits"> & {
  readonly widthBytes: number;
} {
  return { type, bits: 0, widthBytes };
}
