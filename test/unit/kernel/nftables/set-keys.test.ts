import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { IpFamily } from "../../../../src/base/ip.ts";
import {
  type Element,
  elementsOf,
  entriesOf,
  keyShapeOf,
  setTypeOf,
} from "../../../../src/kernel/nftables/set-keys.ts";
import { DecodeError } from "../../../../src/netlink/errors.ts";
import type { IpSetType } from "../../../../src/state/ip-set.ts";
import type { SetEntry } from "../../../../src/state/set-entry.ts";

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex.replaceAll(" ", ""), "hex"));
}

/** The bytes that `nft --debug=netlink` prints for the same elements, converted from host byte order. */
const written: readonly {
  readonly type: IpSetType;
  readonly family: IpFamily;
  readonly entry: string;
  readonly key: string;
  readonly end?: string;
}[] = [
  { type: "hash:ip", family: "IPv4", entry: "10.96.0.10", key: "0a 60 00 0a" },
  { type: "bitmap:port", family: "IPv4", entry: "30080", key: "75 80" },
  {
    type: "hash:ip,port",
    family: "IPv4",
    entry: "10.96.0.10,tcp:80",
    key: "0a 60 00 0a 06 00 00 00 00 50 00 00",
  },
  {
    type: "hash:ip,port,ip",
    family: "IPv4",
    entry: "10.96.0.10,udp:53,10.96.0.11",
    key: "0a 60 00 0a 11 00 00 00 00 35 00 00 0a 60 00 0b",
  },
  {
    type: "hash:ip,port,net",
    family: "IPv4",
    entry: "10.96.0.10,tcp:80,192.0.2.0/25",
    key: "0a 60 00 0a 06 00 00 00 00 50 00 00 c0 00 02 00",
    end: "0a 60 00 0a 06 00 00 00 00 50 00 00 c0 00 02 80",
  },
  {
    type: "hash:ip,port,net",
    family: "IPv6",
    entry: "fd00::1,tcp:80,fd00::/16",
    key: `fd ${"00 ".repeat(14)}01 06 00 00 00 00 50 00 00 fd ${"00 ".repeat(15)}`.trim(),
    end: `fd ${"00 ".repeat(14)}01 06 00 00 00 00 50 00 00 fd 01 ${"00 ".repeat(14)}`.trim(),
  },
];

describe("keys of set elements", () => {
  for (const { type, family, entry, key, end } of written) {
    it(`are as nft writes them and are read back: ${entry} of ${type}`, () => {
      const elements = elementsOf(type, family, entry as SetEntry);
      const expected: Element[] = [{ key: bytesOf(key) }];
      if (end !== undefined) expected.push({ key: bytesOf(end), isEnd: true });
      assert.deepEqual(elements, expected);
      assert.deepEqual(entriesOf(type, family, elements), [entry]);
    });
  }

  it("have the data types and lengths by which nft prints them", () => {
    const shape = keyShapeOf("hash:ip,port,ip", "IPv4");
    assert.deepEqual(shape, { keyType: 1_884_999, keyLength: 16, isInterval: false });
    assert.equal(setTypeOf(shape, "IPv4"), "hash:ip,port,ip");
    assert.equal(setTypeOf(shape, "IPv6"), undefined);
    assert.equal(setTypeOf(keyShapeOf("bitmap:port", "IPv6"), "IPv4"), "bitmap:port");
  });

  it("are assembled from interval ends in any order, even if intervals are adjacent", () => {
    const entries = [
      "10.96.0.1,tcp:80,192.0.2.0/25",
      "10.96.0.1,tcp:80,192.0.2.128/25",
      "10.96.0.1,tcp:81,0.0.0.0/1",
      "10.96.0.1,tcp:81,128.0.0.0/1",
      "255.255.255.255,tcp:65535,255.255.255.255",
    ] as SetEntry[];
    const elements = entries.flatMap((one) => elementsOf("hash:ip,port,net", "IPv4", one));
    assert.deepEqual(entriesOf("hash:ip,port,net", "IPv4", elements.toReversed()), entries);
  });

  it("that no entry expresses are listed by their bytes, so that they can be removed", () => {
    const start = { key: bytesOf("0a600001 06000000 00500000 c0000201") };
    for (const elements of [
      [start, { key: bytesOf("0a600001 06000000 00500000 c0000207"), isEnd: true as const }],
      [start, { key: bytesOf("0a600001 06000000 00510000 c0000202"), isEnd: true as const }],
      [start, { key: bytesOf("0a600001 11000000 00500000 c0000202"), isEnd: true as const }],
      [start],
      [{ ...start, isEnd: true as const }],
    ]) {
      const [entry = "", ...others] = entriesOf("hash:ip,port,net", "IPv4", elements);
      assert.match(entry, /^0x/);
      assert.deepEqual(elementsOf("hash:ip,port,net", "IPv4", entry as SetEntry), elements);
      assert.deepEqual(others, []);
    }
    const catchAll = [{ key: bytesOf("") }];
    const entries = entriesOf("hash:ip", "IPv4", catchAll);
    assert.deepEqual(elementsOf("hash:ip", "IPv4", entries[0] as SetEntry), catchAll);
  });

  it("of a family or type other than the set's are rejected", () => {
    for (const [type, entry] of [
      ["hash:ip", "fd00::1"],
      ["hash:ip", "10.0.0.1,tcp:80"],
      ["hash:ip,port", "10.0.0.1,tcp:70000"],
    ] as const) {
      assert.throws(() => elementsOf(type, "IPv4", entry as SetEntry), /entry/i);
    }
  });

  it("that are too short cause a DecodeError", () => {
    assert.throws(() => entriesOf("hash:ip", "IPv6", [{ key: bytesOf("0a600001") }]), DecodeError);
  });
});
