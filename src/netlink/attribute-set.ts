/**
 * Netlink attributes declared as tables. The table documents the attributes and provides typed encoding and decoding.
 *
 *     const attributes = attributeSet({ addressFamily: u16(1), port: u16be(4), scheduler: text(6) });
 *     attributes.encode(writer, { addressFamily: 2, port: 443, scheduler: "rr" });
 *     attributes.decode(message.body).port;
 *
 * The numbers come from the kernel's headers. The wire format of an attribute is u16 length, u16 type, payload,
 * padding.
 */
import { type Field, NESTED_BIT, TYPE_MASK } from "./attribute-field.ts";
import type { ByteReader } from "./byte-reader.ts";
import { DecodeError } from "./errors.ts";
import { ATTRIBUTE_HEADER_BYTES, type MessageWriter } from "./message.ts";

export type FieldTable = Readonly<Record<string, Field<unknown>>>;

/** A table's values by name. A value is undefined if the attribute was missing or must not be sent. */
export type ValuesOf<F extends FieldTable> = {
  readonly [Name in keyof F]?: F[Name] extends Field<infer T> ? T : never;
};

export interface AttributeSet<V> {
  /** Writes all defined values, in table order. */
  encode(writer: MessageWriter, values: V): void;
  /**
   * Reads attributes up to the end of the reader. Skips unknown attributes. If an attribute is repeated, the last value
   * is used. Throws DecodeError for a length below 4 or past the end, and for a payload of the wrong width.
   */
  decode(reader: ByteReader): V;
}

export function attributeSet<F extends FieldTable>(table: F): AttributeSet<ValuesOf<F>> {
  const rows = Object.entries(table) as unknown as readonly Row[];
  const names = rows.map(([name]) => name);
  const fields = rows.map(([, field]) => field);
  const rowByType = new Map(rows.map((row) => [row[1].type, row]));
  return {
    encode(writer, values) {
      // Iterates by index: before JIT compilation, destructuring entries costs more than writing their values.
      for (let index = 0; index < fields.length; index += 1) {
        const value = (values as Record<string, unknown>)[names[index] as string];
        if (value !== undefined) writeAttribute(writer, fields[index] as Field<unknown>, value);
      }
    },
    decode(reader) {
      const values: Record<string, unknown> = {};
      eachAttribute(reader, (type, length) => {
        const row = rowByType.get(type);
        if (row === undefined) reader.skip(length, "unknown attribute");
        else values[row[0]] = decodePayload(reader, length, row);
      });
      return values as ValuesOf<F>;
    },
  };
}

/** An attribute whose payload is a set of attributes. */
export function nested<V>(type: number, attributes: AttributeSet<V>): Field<V> {
  return {
    type,
    bits: NESTED_BIT,
    write: attributes.encode,
    read: attributes.decode,
  };
}

/** An attribute that contains any number of attributes of one type. Attributes of other types are skipped. */
export function list<T>(type: number, item: Field<T>): Field<readonly T[]> {
  return {
    type,
    bits: NESTED_BIT,
    write(writer, values) {
      for (const value of values) writeAttribute(writer, item, value);
    },
    read: (reader) => readList(reader, item as Field<unknown>) as T[],
  };
}

/** Writes one attribute. Callers that send many messages use this to avoid the cost of building value objects. */
export function writeAttribute<T>(writer: MessageWriter, field: Field<T>, value: T): void {
  const start = writer.beginAttribute(field.type | field.bits);
  field.write(writer, value);
  writer.endAttribute(start);
}

/** Writes a nested attribute; `write` writes its contents from `value`. */
export function writeNested<T>(
  writer: MessageWriter,
  type: number,
  value: T,
  write: (writer: MessageWriter, value: T) => void,
): void {
  const start = writer.beginAttribute(type | NESTED_BIT);
  write(writer, value);
  writer.endAttribute(start);
}

/** Returns the value. If it is undefined, throws a DecodeError that names the missing attribute. */
export function required<T>(value: T | undefined, what: string, reader: ByteReader): T {
  if (value === undefined) throw new DecodeError(`${what}: attribute missing`, reader.offset);
  return value;
}

type Row = readonly [name: string, field: Field<unknown>];

function decodePayload(reader: ByteReader, length: number, [name, field]: Row): unknown {
  const { widthBytes } = field;
  if (widthBytes !== undefined && widthBytes !== length) {
    throw new DecodeError(`${name}: ${length} bytes instead of ${widthBytes}`, reader.offset);
  }
  return reader.within(length, name, field.read);
}

/** Calls `visit` with the reader at the payload. `visit` must leave the reader at the end of the payload. */
function eachAttribute(reader: ByteReader, visit: (type: number, length: number) => void): void {
  while (reader.remaining > 0) {
    const start = reader.offset;
    const length = reader.u16("attribute length");
    const type = reader.u16("attribute type") & TYPE_MASK;
    if (length < ATTRIBUTE_HEADER_BYTES || length - ATTRIBUTE_HEADER_BYTES > reader.remaining) {
      throw new DecodeError(`attribute ${type} with length ${length}`, start);
    }
    visit(type, length - ATTRIBUTE_HEADER_BYTES);
    reader.align();
  }
}

function readList(reader: ByteReader, item: Field<unknown>): unknown[] {
  const values: unknown[] = [];
  eachAttribute(reader, (type, length) => {
    if (type === item.type) values.push(decodePayload(reader, length, ["list item", item]));
    else reader.skip(length, "unknown attribute");
  });
  return values;
}
