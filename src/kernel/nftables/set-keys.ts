/**
 * Set entries as keys of nf_tables elements. Pure. A key consists of the entry's fields in network order. If there are
 * several fields, each is padded to a multiple of four bytes, the size of the kernel's registers.
 */
import {
  type Cidr,
  familyOf,
  hostPrefixLength,
  type IpAddress,
  type IpFamily,
  ipAddressFromBytes,
  ipAddressToBytes,
  ipFamilies,
  lastAddressOf,
  parseCidr,
} from "../../base/ip.ts";
import { hexText } from "../../netlink/attribute-field.ts";
import { ByteReader } from "../../netlink/byte-reader.ts";
import { MessageWriter } from "../../netlink/message.ts";
import type { IpSetType } from "../../state/ip-set.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { EntryValues } from "../ipset/attributes.ts";
import { entryText, entryValues } from "../ipset/entry.ts";

/** An element of a set. `end` is the last key of an interval. */
export interface Element {
  readonly key: Uint8Array;
  readonly end?: Uint8Array;
}

/** `covered-nets` contains the networks that another network of the same set covers; see overlaps.ts. */
export type Layout = IpSetType | "covered-nets";

type Field = "address" | "protocol" | "port" | "second" | "last";

const fieldsOf: Readonly<Record<Layout, readonly Field[]>> = {
  "hash:ip": ["address"],
  "hash:ip,port": ["address", "protocol", "port"],
  "hash:ip,port,ip": ["address", "protocol", "port", "second"],
  "hash:ip,port,net": ["address", "protocol", "port", "second"],
  "bitmap:port": ["port"],
  "covered-nets": ["address", "protocol", "port", "second", "last"],
};

const layouts = Object.keys(fieldsOf) as readonly Layout[];

/** The size of a field in bytes, and the number of its data type in `nft`, which the kernel stores and `nft list` uses. */
function fieldShape(field: Field, family: IpFamily): { bytes: number; dataType: number } {
  if (field === "protocol") return { bytes: 1, dataType: 12 };
  if (field === "port") return { bytes: 2, dataType: 13 };
  return family === "IPv4" ? { bytes: 4, dataType: 7 } : { bytes: 16, dataType: 8 };
}

/** What defines a set in the kernel. */
export interface KeyShape {
  /** Six bits per field, in the order of the fields. */
  readonly keyType: number;
  readonly keyLength: number;
  readonly fieldLengths: readonly number[];
  readonly isInterval: boolean;
}

export function keyShapeOf(layout: Layout, family: IpFamily): KeyShape {
  const shapes = fieldsOf[layout].map((field) => fieldShape(field, family));
  const fieldLengths = shapes.map(({ bytes }) => bytes);
  return {
    keyType: shapes.reduce((type, { dataType }) => type * 64 + dataType, 0),
    keyLength:
      fieldLengths.length === 1
        ? (fieldLengths[0] ?? 0)
        : fieldLengths.reduce((sum, bytes) => sum + ((bytes + 3) & ~3), 0),
    fieldLengths,
    isInterval: layout === "hash:ip,port,net",
  };
}

/** The layout of an existing set; undefined if it is not one of ours. */
export function layoutOf(
  keyType: number,
  isInterval: boolean,
): { readonly layout: Layout; readonly family: IpFamily } | undefined {
  for (const family of ipFamilies) {
    const layout = layouts.find((one) => {
      const shape = keyShapeOf(one, family);
      return shape.keyType === keyType && shape.isInterval === isInterval;
    });
    if (layout !== undefined) return { layout, family };
  }
  return undefined;
}

/** Throws an Error if the entry does not fit the set. */
export function elementOf(layout: Layout, family: IpFamily, entry: SetEntry): Element {
  if (entry.startsWith(rawPrefix)) return rawElement(entry);
  const isNets = layout === "covered-nets" || layout === "hash:ip,port,net";
  const values = entryValues(isNets ? "hash:ip,port,net" : layout, entry);
  if (values.address !== undefined && familyOf(values.address) !== family) {
    throw new Error(`Entry ${entry} is not ${family}`);
  }
  const { secondAddress: address, secondPrefixLength: prefixLength } = values;
  if (!isNets || address === undefined || prefixLength === undefined) {
    return { key: keyBytes(layout, values) };
  }
  const last = lastAddressOf({ address, prefixLength });
  const key = keyBytes(layout, values, last);
  if (layout === "covered-nets") return { key };
  return { key, end: keyBytes(layout, { ...values, secondAddress: last }) };
}

const keyWriter = new MessageWriter(64);

function keyBytes(layout: Layout, values: EntryValues, last?: IpAddress): Uint8Array {
  const fields = fieldsOf[layout];
  keyWriter.clear();
  for (const field of fields) {
    writeField(field, values, last);
    if (fields.length > 1) keyWriter.zeros(-keyWriter.length & 3);
  }
  return keyWriter.written.slice();
}

function writeField(field: Field, values: EntryValues, last: IpAddress | undefined): void {
  if (field === "protocol") keyWriter.u8(values.protocolNumber ?? 0);
  else if (field === "port") keyWriter.u16be(values.port ?? 0);
  else {
    const address = { address: values.address, second: values.secondAddress, last }[field];
    if (address === undefined) throw new RangeError(`An entry without ${field} address`);
    keyWriter.ipAddress(address);
  }
}

/** Reverses {@link elementOf}. Throws DecodeError if the key is too short. */
export function entryOf(layout: Layout, family: IpFamily, { key, end = key }: Element): SetEntry {
  if (key.length === 0) return rawText({ key });
  const values = keyValues(layout, family, key);
  if (layout !== "covered-nets" && layout !== "hash:ip,port,net") return entryText(layout, values);
  const lastValues = keyValues(layout, family, end);
  const { secondAddress: first } = values;
  const last = layout === "covered-nets" ? values.last : lastValues.secondAddress;
  const net = first === undefined || last === undefined ? undefined : netOf(first, last);
  const isRange =
    lastValues.address !== values.address ||
    lastValues.protocolNumber !== values.protocolNumber ||
    lastValues.port !== values.port;
  if (net === undefined || isRange) return rawText({ key, end });
  return entryText("hash:ip,port,net", { ...values, secondPrefixLength: net.prefixLength });
}

function keyValues(
  layout: Layout,
  family: IpFamily,
  key: Uint8Array,
): EntryValues & { readonly last?: IpAddress } {
  const reader = new ByteReader(key);
  const values: Record<string, unknown> = {};
  for (const field of fieldsOf[layout]) {
    const bytes = reader.bytes(fieldShape(field, family).bytes, field);
    reader.align();
    if (field === "protocol") values["protocolNumber"] = bytes[0];
    else if (field === "port") values["port"] = ((bytes[0] ?? 0) << 8) | (bytes[1] ?? 0);
    else values[field === "second" ? "secondAddress" : field] = ipAddressFromBytes(bytes);
  }
  return values;
}

/** The network from `first` to `last`; undefined if these are not the first and last addresses of a network. */
function netOf(first: IpAddress, last: IpAddress): Cidr | undefined {
  const [start, end] = [ipAddressToBytes(first), ipAddressToBytes(last)];
  let prefixLength = hostPrefixLength(familyOf(first));
  for (let at = start.length - 1; at >= 0; at -= 1) {
    const hostBits = 32 - Math.clz32((start[at] ?? 0) ^ (end[at] ?? 0));
    if (hostBits > 0) prefixLength = at * 8 + 8 - hostBits;
  }
  const net = parseCidr(`${first}/${prefixLength}`);
  return net?.address === first && lastAddressOf(net) === last ? net : undefined;
}

/**
 * Third parties may add elements that no entry expresses, such as a range of ports. They are listed by their bytes, so
 * that they can be removed. An empty key is the catch-all element.
 */
const rawPrefix = "0x";

function rawText({ key, end }: Element): SetEntry {
  const hex = [key, ...(end === undefined ? [] : [end])].map(
    (bytes) => rawPrefix + hexText(bytes).replaceAll(" ", ""),
  );
  return hex.join("-") as SetEntry;
}

function rawElement(entry: SetEntry): Element {
  const [key = new Uint8Array(), end] = entry
    .split("-")
    .map((hex) => Uint8Array.from(Buffer.from(hex.slice(rawPrefix.length), "hex")));
  return end === undefined ? { key } : { key, end };
}
