import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { IpFamily } from "../../../../src/base/ip.ts";
import {
  elementOf,
  entryOf,
  keyShapeOf,
  type Layout,
  layoutOf,
} from "../../../../src/kernel/nftables/set-keys.ts";
import { hexText } from "../../../../src/netlink/attribute-field.ts";
import { DecodeError } from "../../../../src/netlink/errors.ts";
import type { SetEntry } from "../../../../src/state/set-entry.ts";

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex.replaceAll(" ", ""), "hex"));
}

/** The bytes that `nft --debug=netlink` shows for the same elements, with the host's byte order undone. */
const written: readonly {
  readonly layout: Layout;
  readonly family: IpFamily;
  readonly entry: string;
  readonly key: string;
  readonly end?: string;
}[] = [
  { layout: "hash:ip", family: "IPv4", entry: "10.96.0.10", key: "0a 60 00 0a" },
  { layout: "bitmap:port", family: "IPv4", entry: "30080", key: "75 80" },
  {
    layout: "hash:ip,port",
    family: "IPv4",
    entry: "10.96.0.10,tcp:80",
    key: "0a 60 00 0a 06 00 00 00 00 50 00 00",
  },
  {
    layout: "hash:ip,port,ip",
    family: "IPv4",
    entry: "10.96.0.10,udp:53,10.96.0.11",
    key: "0a 60 00 0a 11 00 00 00 00 35 00 00 0a 60 00 0b",
  },
  {
    layout: "hash:ip,port,net",
    family: "IPv4",
    entry: "10.96.0.10,tcp:80,192.0.2.0/25",
    key: "0a 60 00 0a 06 00 00 00 00 50 00 00 c0 00 02 00",
    end: "0a 60 00 0a 06 00 00 00 00 50 00 00 c0 00 02 7f",
  },
  {
    layout: "hash:ip,port,net",
    family: "IPv6",
    entry: "fd00::1,tcp:80,fd00::/16",
    key: `fd ${"00 ".repeat(14)}01 06 00 00 00 00 50 00 00 fd ${"00 ".repeat(15)}`.trim(),
    end: `fd ${"00 ".repeat(14)}01 06 00 00 00 00 50 00 00 fd 00 ${"ff ".repeat(14)}`.trim(),
  },
  {
    layout: "covered-nets",
    family: "IPv4",
    entry: "10.96.0.10,tcp:80,192.0.2.1",
    key: "0a 60 00 0a 06 00 00 00 00 50 00 00 c0 00 02 01 c0 00 02 01",
  },
];

describe("keys of set elements", () => {
  for (const { layout, family, entry, key, end } of written) {
    it(`are as nft writes them and are read back: ${entry} of ${layout}`, () => {
      const element = elementOf(layout, family, entry as SetEntry);
      assert.equal(hexText(element.key), key);
      assert.equal(element.end && hexText(element.end), end);
      assert.equal(entryOf(layout, family, element), entry);
    });
  }

  it("have the data types and lengths by which nft prints them", () => {
    const { keyType, keyLength, fieldLengths } = keyShapeOf("hash:ip,port,ip", "IPv4");
    assert.deepEqual([keyType, keyLength, fieldLengths], [1884999, 16, [4, 1, 2, 4]]);
    assert.deepEqual(layoutOf(keyType, false), { layout: "hash:ip,port,ip", family: "IPv4" });
    assert.deepEqual(layoutOf(keyType, true), { layout: "hash:ip,port,net", family: "IPv4" });
    assert.equal(layoutOf(9, false), undefined);
  });

  it("that no entry expresses are listed by their bytes, so that they can be removed", () => {
    const start = "0a600001 06000000 00500000 c0000201";
    for (const end of [
      "0a600001 06000000 00500000 c0000206",
      "0a600001 06000000 00510000 c0000201",
      "0a600001 11000000 00500000 c0000201",
    ]) {
      const element = { key: bytesOf(start), end: bytesOf(end) };
      const entry = entryOf("hash:ip,port,net", "IPv4", element);
      assert.match(entry, /^0x0a600001.*-0x0a600001/);
      assert.deepEqual(elementOf("hash:ip,port,net", "IPv4", entry), element);
    }
    const catchAll = entryOf("hash:ip", "IPv4", { key: bytesOf("") });
    assert.deepEqual(elementOf("hash:ip", "IPv4", catchAll), { key: bytesOf("") });
  });

  it("of another family or type than the set's are refused", () => {
    for (const [layout, entry] of [
      ["hash:ip", "fd00::1"],
      ["hash:ip", "10.0.0.1,tcp:80"],
      ["hash:ip,port", "10.0.0.1,tcp:70000"],
      ["covered-nets", "10.0.0.1,tcp:80"],
    ] as const) {
      assert.throws(() => elementOf(layout, "IPv4", entry as SetEntry), /Entry/);
    }
  });

  it("that are too short are DecodeErrors", () => {
    assert.throws(() => entryOf("hash:ip", "IPv6", { key: bytesOf("0a600001") }), DecodeError);
  });
});
