import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ipAddressFromBytes } from "../../../src/base/ip.ts";
import {
  bytes,
  ipAddress,
  networkOrder,
  text,
  u8,
  u16,
  u16be,
  u32,
  u32be,
} from "../../../src/netlink/attribute-field.ts";
import {
  attributeSet,
  list,
  nested,
  required,
  writeAttribute,
  writeNested,
} from "../../../src/netlink/attribute-set.ts";
import { ByteReader } from "../../../src/netlink/byte-reader.ts";
import { DecodeError } from "../../../src/netlink/errors.ts";
import { MessageWriter } from "../../../src/netlink/message.ts";
import fc from "../../support/fast-check.ts";

const inner = attributeSet({ address: bytes(1), port: networkOrder(u16be(4)) });
const table = attributeSet({
  small: u8(1),
  word: u16(2),
  port: u16be(3),
  count: u32(4),
  limit: u32be(5),
  name: text(7),
  raw: bytes(8),
  place: nested(10, inner),
  entries: list(11, nested(7, inner)),
});
type Values = ReturnType<typeof table.decode>;

function encode(values: Values): Uint8Array {
  const writer = new MessageWriter(16);
  table.encode(writer, values);
  return writer.written;
}

function decode(attributes: Uint8Array): Values {
  return table.decode(new ByteReader(attributes));
}

const place = fc.record(
  { address: fc.uint8Array({ maxLength: 16 }), port: fc.integer({ min: 0, max: 0xffff }) },
  { noNullPrototype: true },
);
const anyValues = fc.record(
  {
    small: fc.integer({ min: 0, max: 0xff }),
    word: fc.integer({ min: 0, max: 0xffff }),
    port: fc.integer({ min: 0, max: 0xffff }),
    count: fc.integer({ min: 0, max: 0xffffffff }),
    limit: fc.integer({ min: 0, max: 0xffffffff }),
    name: fc.string({ unit: "grapheme", maxLength: 40 }).filter((name) => !name.includes("\0")),
    raw: fc.uint8Array({ maxLength: 40 }),
    place,
    entries: fc.array(place, { maxLength: 5 }),
  },
  { requiredKeys: [], noNullPrototype: true },
);

describe("attributeSet", () => {
  it("decodes what it encoded", () => {
    fc.assert(
      fc.property(anyValues, (values) => {
        assert.deepEqual(decode(encode(values)), values);
      }),
    );
  });

  it("writes length, type, payload and padding, in the order of the table", () => {
    assert.deepEqual(
      [...encode({ port: 443, small: 7 })],
      [5, 0, 1, 0, 7, 0, 0, 0, 6, 0, 3, 0, 0x01, 0xbb, 0, 0],
    );
  });

  it("marks nests and numbers in network order with the bits of their types", () => {
    assert.deepEqual(
      [...encode({ place: { port: 53 } })],
      [12, 0, 10, 0x80, 6, 0, 4, 0x40, 0, 53, 0, 0],
    );
  });

  it("reads attributes with and without those bits", () => {
    const plain = Uint8Array.of(12, 0, 10, 0, 6, 0, 4, 0, 0, 53, 0, 0);
    assert.deepEqual(decode(plain), { place: { port: 53 } });
  });

  it("skips unknown attributes, and uses the last of repeated ones", () => {
    const attributes = Uint8Array.of(
      5,
      0,
      99,
      0,
      1,
      0,
      0,
      0,
      5,
      0,
      1,
      0,
      3,
      0,
      0,
      0,
      5,
      0,
      1,
      0,
      4,
      0,
      0,
      0,
    );
    assert.deepEqual(decode(attributes), { small: 4 });
  });

  it("omits undefined values", () => {
    assert.equal(encode({}).length, 0);
  });
});

describe("attributeSet rejects while writing", () => {
  const cases: readonly { name: string; values: Values; says: RegExp }[] = [
    { name: "a number that is too large", values: { word: 0x10000 }, says: /65536 does not fit/ },
    { name: "a port that is too large", values: { port: 0x10000 }, says: /65536 does not fit/ },
    { name: "a negative number", values: { count: -1 }, says: /-1 does not fit/ },
    { name: "a fraction", values: { small: 1.5 }, says: /1.5 does not fit/ },
    { name: "text that contains a NUL", values: { name: "a\0b" }, says: /NUL/ },
    { name: "a nest longer than 16 bits", values: { raw: new Uint8Array(65_532) }, says: /65535/ },
    {
      name: "a list longer than 16 bits",
      values: { entries: Array.from({ length: 7000 }, () => ({ port: 1 })) },
      says: /65535/,
    },
  ];
  for (const { name, values, says } of cases) {
    it(name, () => assert.throws(() => encode(values), { name: "RangeError", message: says }));
  }

  it("but accepts the longest value that fits", () => {
    assert.equal(decode(encode({ raw: new Uint8Array(65_531) })).raw?.length, 65_531);
  });
});

describe("attributeSet rejects while reading", () => {
  const cases: readonly { name: string; attributes: readonly number[]; says: RegExp }[] = [
    { name: "a length of 0, which would never end", attributes: [0, 0, 1, 0], says: /length 0/ },
    { name: "a length below the header", attributes: [3, 0, 1, 0], says: /length 3/ },
    { name: "a length past the end", attributes: [9, 0, 1, 0, 1, 0, 0, 0], says: /length 9/ },
    { name: "half a header", attributes: [5, 0, 1], says: /attribute type/ },
    {
      name: "a number with the wrong width",
      attributes: [8, 0, 2, 0, 1, 0, 0, 0],
      says: /word: 4 bytes instead of 2/,
    },
    {
      name: "a nest with invalid contents",
      attributes: [8, 0, 10, 0, 2, 0, 1, 0],
      says: /length 2/,
    },
    {
      name: "a list item with invalid contents",
      attributes: [12, 0, 11, 0, 8, 0, 7, 0, 0, 0, 1, 0],
      says: /length 0/,
    },
  ];
  for (const { name, attributes, says } of cases) {
    it(name, () => {
      assert.throws(() => decode(Uint8Array.from(attributes)), {
        name: "DecodeError",
        message: says,
      });
    });
  }

  it("with DecodeError only, for all bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (attributes) => {
        try {
          decode(attributes);
        } catch (error) {
          assert.ok(error instanceof DecodeError, String(error));
        }
      }),
    );
  });

  it("a missing required attribute", () => {
    const reader = new ByteReader(new Uint8Array());
    assert.throws(() => required(undefined, "port", reader), /port: attribute missing/);
    assert.equal(required(0, "port", reader), 0);
  });
});

describe("attributes that are written one by one", () => {
  it("equal those that a table writes", () => {
    const address = Uint8Array.of(10, 96, 0, 1);
    const writer = new MessageWriter(16);
    writeAttribute(writer, u16be(3), 443);
    writeNested(writer, 10, address, (inside, value) => {
      writeAttribute(inside, ipAddress(1), ipAddressFromBytes(value));
      writeAttribute(inside, networkOrder(u16be(4)), 80);
    });
    assert.deepEqual(writer.written, encode({ port: 443, place: { address, port: 80 } }));
  });
});
