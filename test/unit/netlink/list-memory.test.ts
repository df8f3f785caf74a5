import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { ByteReader } from "../../../src/netlink/byte-reader.ts";
import { ListMemory } from "../../../src/netlink/list-memory.ts";
import type { Message } from "../../../src/netlink/message.ts";

interface Sent {
  readonly type: number;
  readonly bytes: readonly number[];
}

function messageOf({ type, bytes }: Sent): Message {
  // Not at the start of its buffer, as in a reply.
  const buffer = Uint8Array.of(9, 9, ...bytes, 9);
  return { type, flags: 0, sequence: 0, body: new ByteReader(buffer, 2, 2 + bytes.length) };
}

function decode({ type, body }: Message): { readonly type: number; readonly bytes: number[] } {
  return { type, bytes: [...body.bytes(body.remaining, "all")] };
}

/** Reads the listing, and returns how many messages were decoded for it. */
async function read(memory: ListMemory<ReturnType<typeof decode>>, sent: readonly Sent[]) {
  let decodedCount = 0;
  const values = await memory.read(
    (message) => {
      decodedCount += 1;
      return decode(message);
    },
    async (decodeOne) => sent.flatMap((one) => decodeOne(messageOf(one)) ?? []),
  );
  return { values, decodedCount };
}

const listing: readonly Sent[] = [
  { type: 20, bytes: [10, 96, 0, 1, 0, 80, 1] },
  { type: 20, bytes: [10, 96, 0, 2, 0, 80, 1] },
  { type: 20, bytes: [] },
];

describe("ListMemory", () => {
  it("decodes a message that comes again once, and gives the same value", async () => {
    const memory = new ListMemory<ReturnType<typeof decode>>();
    const first = await read(memory, listing);
    const second = await read(memory, listing.toReversed());
    assert.equal(first.decodedCount, 3);
    assert.equal(second.decodedCount, 0);
    assert.deepEqual(first.values, listing);
    for (const value of second.values) assert.ok(first.values.includes(value));
  });

  it("remembers the last listing alone", async () => {
    const memory = new ListMemory<ReturnType<typeof decode>>();
    await read(memory, listing);
    await read(memory, []);
    assert.equal((await read(memory, listing)).decodedCount, 3);
  });

  it("remembers that a message gives nothing", async () => {
    const memory = new ListMemory<number>();
    let count = 0;
    const look = (): Promise<number[]> =>
      memory.read(
        () => {
          count += 1;
          return undefined;
        },
        async (one) => {
          one(messageOf({ type: 1, bytes: [1] }));
          return [];
        },
      );
    await look();
    await look();
    assert.equal(count, 1);
  });

  it("distinguishes messages, whatever changed in them", async () => {
    const values = { type: fc.nat(3), bytes: fc.array(fc.nat(255), { maxLength: 24 }) };
    const sent = fc.record(values, { noNullPrototype: true });
    await fc.assert(
      fc.asyncProperty(fc.array(sent, { maxLength: 6 }), fc.array(sent), async (first, second) => {
        const memory = new ListMemory<ReturnType<typeof decode>>();
        await read(memory, first);
        assert.deepEqual((await read(memory, second)).values, second);
      }),
    );
  });

  it("sees the highest bit of two words change at once", async () => {
    const memory = new ListMemory<ReturnType<typeof decode>>();
    const words = (high: number): number[] => [high, 0, 0, 1, high, 0, 0, 1];
    const wordsFromBehind = (high: number): number[] => [1, 0, 0, high, 1, 0, 0, high];
    for (const bytes of [words(0), words(128), wordsFromBehind(0), wordsFromBehind(128)]) {
      assert.deepEqual((await read(memory, [{ type: 1, bytes }])).values, [{ type: 1, bytes }]);
    }
  });
});
