import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { IpFamily } from "../../../../src/base/ip.ts";
import { hashTables } from "../../../../src/kernel/iptables/legacy-generation.ts";

/**
 * struct ipt_entry and struct ip6t_entry: the offsets of `next_offset` and the counters, and the size before the
 * matches.
 */
const layouts = {
  IPv4: { nextOffset: 90, counters: 96, headBytes: 112 },
  IPv6: { nextOffset: 142, counters: 152, headBytes: 168 },
} as const;
const targetBytes = 40;

interface Entry {
  readonly packets?: bigint;
  readonly bytes?: bigint;
  readonly target?: number;
}

function table(family: IpFamily, entries: readonly Entry[]): Uint8Array {
  const { nextOffset, counters, headBytes } = layouts[family];
  return Buffer.concat(
    entries.map(({ packets = 0n, bytes = 0n, target = 1 }) => {
      const entry = Buffer.alloc(headBytes + targetBytes, target);
      entry.writeUInt16LE(entry.length, nextOffset);
      entry.writeBigUInt64LE(packets, counters);
      entry.writeBigUInt64LE(bytes, counters + 8);
      return entry;
    }),
  );
}

for (const family of ["IPv4", "IPv6"] as const) {
  const hash = (...tables: readonly (readonly Entry[])[]): number =>
    hashTables(
      family,
      tables.map((entries) => table(family, entries)),
    );

  describe(`the generation number of ${family}'s legacy tables`, () => {
    it("stays the same while packets are counted", () => {
      const counted = { packets: 12n, bytes: 3_400n };
      assert.equal(hash([counted, { packets: 7n }]), hash([{}, {}]));
      assert.equal(hash([{}, { bytes: 1n }]), hash([{}, {}]));
    });

    it("changes if an entry changes, is added, is removed or moves to the other table", () => {
      const numbers = [
        hash([{}, {}], []),
        hash([{}, { target: 2 }], []),
        hash([{}, {}, {}], []),
        hash([{}], []),
        hash([{}], [{}]),
        hash([{}, {}]),
      ];
      assert.equal(new Set(numbers).size, numbers.length);
    });

    it("is rejected if the entries are truncated or have no length", () => {
      const whole = table(family, [{}]);
      assert.throws(() => hashTables(family, [whole.subarray(0, 100)]), RangeError);
      assert.throws(() => hashTables(family, [new Uint8Array(400)]), RangeError);
    });
  });
}
