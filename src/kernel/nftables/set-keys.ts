/**
 * Set entries as keys of nf_tables elements. Pure. A key consists of the entry's fields in network order. If there are
 * several fields, each is padded to a multiple of four bytes, the size of the kernel's registers.
 */
import { familyOf, type IpFamily, ipAddressFromBytes, lastAddressOf } from "../../base/ip.ts";
import { ByteReader } from "../../netlink/byte-reader.ts";
import { MessageWriter } from "../../netlink/message.ts";
import type { IpSetType } from "../../state/ip-set.ts";
import type { SetEntry } from "../../state/set-entry.ts";
import type { EntryValues } from "../ipset/attributes.ts";
import { entryText, entryValues } from "../ipset/entry.ts";

/** A set element. An interval consists of two elements: its first key, and the key after its last one. */
export interface Element {
  readonly key: Uint8Array;
  readonly isEnd?: true;
}

type Field = "address" | "protocol" | "port" | "second";

const fieldsOf: Readonly<Record<IpSetType, readonly Field[]>> = {
  "hash:ip": ["address"],
  "hash:ip,port": ["address", "protocol", "port"],
  "hash:ip,port,ip": ["address", "protocol", "port", "second"],
  "hash:ip,port,net": ["address", "protocol", "port", "second"],
  "bitmap:port": ["port"],
};

const types = Object.keys(fieldsOf) as readonly IpSetType[];

/** A field's size in bytes, and the number of its `nft` data type, which the kernel stores for `nft list`. */
function fieldShape(field: Field, family: IpFamily): { bytes: number; dataType: number } {
  if (field === "protocol") return { bytes: 1, dataType: 12 };
  if (field === "port") return { bytes: 2, dataType: 13 };
  return family === "IPv4" ? { bytes: 4, dataType: 7 } : { bytes: 16, dataType: 8 };
}

/** The parameters with which a set is created. */
export interface KeyShape {
  /** Six bits per field, in the order of the fields. */
  readonly keyType: number;
  readonly keyLength: number;
  readonly isInterval: boolean;
}

/**
 * `ether_addr`, although the keys are not Ethernet addresses. The kernel compares interval keys as a whole, which is
 * correct because the network is the last field. The kernel's sets for intervals of concatenations (pipapo) are too
 * slow: removing 100 of 4,000 elements takes a second. `nft list` crashes if an interval key has a concatenation type
 * or a type with symbols, but prints the bytes of an Ethernet address.
 */
const intervalKeyType = 9;

export function keyShapeOf(type: IpSetType, family: IpFamily): KeyShape {
  const shapes = fieldsOf[type].map((field) => fieldShape(field, family));
  const isInterval = type === "hash:ip,port,net";
  const lengths = shapes.map(({ bytes }) => bytes);
  return {
    keyType: isInterval
      ? intervalKeyType
      : shapes.reduce((type, { dataType }) => type * 64 + dataType, 0),
    keyLength:
      lengths.length === 1
        ? (lengths[0] ?? 0)
        : lengths.reduce((sum, bytes) => sum + ((bytes + 3) & ~3), 0),
    isInterval,
  };
}

/** The type of an existing set; undefined if it is not one of ours. */
export function setTypeOf(shape: KeyShape, family: IpFamily): IpSetType | undefined {
  return types.find((type) => {
    const { keyType, keyLength, isInterval } = keyShapeOf(type, family);
    return (
      shape.keyType === keyType && shape.keyLength === keyLength && shape.isInterval === isInterval
    );
  });
}

/** Throws RangeError if the entry does not fit the set. */
export function elementsOf(type: IpSetType, family: IpFamily, entry: SetEntry): readonly Element[] {
  if (entry.startsWith(rawPrefix)) return rawElements(entry);
  const values = entryValues(type, entry);
  if (values.address !== undefined && familyOf(values.address) !== family) {
    throw new RangeError(`Entry ${entry} is not ${family}`);
  }
  const key = keyBytes(type, values);
  const { secondAddress: address, secondPrefixLength: prefixLength } = values;
  if (type !== "hash:ip,port,net" || address === undefined || prefixLength === undefined) {
    return [{ key }];
  }
  const secondAddress = lastAddressOf({ address, prefixLength });
  return [{ key }, { key: neighbor(keyBytes(type, { ...values, secondAddress }), 1), isEnd: true }];
}

/** The next or the previous key. */
function neighbor(key: Uint8Array, step: 1 | -1): Uint8Array {
  const result = key.slice();
  const carry = step === 1 ? 0 : 0xff;
  for (let at = result.length - 1; at >= 0; at -= 1) {
    result[at] = (result[at] ?? 0) + step;
    if (result[at] !== carry) break;
  }
  return result;
}

const keyWriter = new MessageWriter(64);

function keyBytes(type: IpSetType, values: EntryValues): Uint8Array {
  const fields = fieldsOf[type];
  keyWriter.clear();
  for (const field of fields) {
    writeField(field, values);
    if (fields.length > 1) keyWriter.zeros(-keyWriter.length & 3);
  }
  return keyWriter.written.slice();
}

function writeField(field: Field, values: EntryValues): void {
  if (field === "protocol") keyWriter.u8(values.protocolNumber ?? 0);
  else if (field === "port") keyWriter.u16be(values.port ?? 0);
  else {
    const address = field === "second" ? values.secondAddress : values.address;
    if (address === undefined) throw new RangeError(`An entry without ${field} address`);
    keyWriter.ipAddress(address);
  }
}

/** Reverses {@link elementsOf} for all of a set's elements. Throws DecodeError if a key is too short. */
export function entriesOf(
  type: IpSetType,
  family: IpFamily,
  elements: readonly Element[],
): readonly SetEntry[] {
  if (type === "hash:ip,port,net") {
    return intervalsOf(elements).map((one) => netEntry(family, one));
  }
  return elements.map(({ key }) => {
    if (key.length === 0) return rawText(key);
    return entryText(type, keyValues(type, family, key));
  });
}

/** `start` and `end` as in the kernel. One of them is undefined if the kernel has no such element. */
interface Interval {
  readonly start?: Uint8Array;
  readonly end?: Uint8Array;
}

/** The kernel's intervals do not overlap. If two are adjacent, an end has the same key as the next start. */
function intervalsOf(elements: readonly Element[]): readonly Interval[] {
  const intervals: Interval[] = [];
  let start: Uint8Array | undefined;
  const sorted = elements.toSorted(
    (one, other) =>
      Buffer.compare(one.key, other.key) || Number(other.isEnd ?? 0) - Number(one.isEnd ?? 0),
  );
  for (const { key, isEnd } of sorted) {
    if (isEnd) {
      intervals.push(start === undefined ? { end: key } : { start, end: key });
      start = undefined;
    } else {
      if (start !== undefined) intervals.push({ start });
      start = key;
    }
  }
  return start === undefined ? intervals : [...intervals, { start }];
}

function netEntry(family: IpFamily, { start, end }: Interval): SetEntry {
  if (start === undefined || end === undefined) return rawText(start, end);
  const serverBits = (start.length - fieldShape("second", family).bytes) * 8;
  const keyPrefix = prefixLengthOf(start, neighbor(end, -1)) ?? -1;
  if (keyPrefix < serverBits) return rawText(start, end);
  const values = keyValues("hash:ip,port,net", family, start);
  return entryText("hash:ip,port,net", { ...values, secondPrefixLength: keyPrefix - serverBits });
}

function keyValues(type: IpSetType, family: IpFamily, key: Uint8Array): EntryValues {
  const reader = new ByteReader(key);
  const values: Record<string, unknown> = {};
  for (const field of fieldsOf[type]) {
    const bytes = reader.bytes(fieldShape(field, family).bytes, field);
    reader.align();
    if (field === "protocol") values["protocolNumber"] = bytes[0];
    else if (field === "port") values["port"] = ((bytes[0] ?? 0) << 8) | (bytes[1] ?? 0);
    else values[field === "second" ? "secondAddress" : field] = ipAddressFromBytes(bytes);
  }
  return values;
}

/**
 * The number of leading bits that `first` and `last` have in common. Undefined if a key outside this interval also
 * begins with these bits.
 */
function prefixLengthOf(first: Uint8Array, last: Uint8Array): number | undefined {
  const at = first.findIndex((byte, index) => byte !== last[index]);
  if (at < 0) return first.length * 8;
  const hostBits = 32 - Math.clz32((first[at] ?? 0) ^ (last[at] ?? 0));
  const hostMask = 2 ** hostBits - 1;
  const isWhole =
    ((first[at] ?? 0) & hostMask) === 0 &&
    ((last[at] ?? 0) & hostMask) === hostMask &&
    first.subarray(at + 1).every((byte) => byte === 0) &&
    last.subarray(at + 1).every((byte) => byte === 0xff);
  return isWhole ? at * 8 + 8 - hostBits : undefined;
}

/**
 * Third parties may add elements that no entry can express, such as a port range. They are listed by their bytes, so
 * that they can be removed. The catch-all element has no bytes.
 */
const rawPrefix = "0x";

function rawText(start: Uint8Array | undefined, end?: Uint8Array): SetEntry {
  const texts = [start ?? new Uint8Array(), ...(end === undefined ? [] : [end])].map(
    (bytes) => rawPrefix + Buffer.from(bytes).toString("hex"),
  );
  return texts.join("-") as SetEntry;
}

function rawElements(entry: SetEntry): readonly Element[] {
  const [start = new Uint8Array(), end] = entry
    .split("-")
    .map((hex) => Uint8Array.from(Buffer.from(hex.slice(rawPrefix.length), "hex")));
  if (end === undefined) return [{ key: start }];
  return [...(start.length === 0 ? [] : [{ key: start }]), { key: end, isEnd: true as const }];
}
