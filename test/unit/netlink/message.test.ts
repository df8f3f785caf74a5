import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { IpAddress } from "../../../src/base/ip.ts";
import { DecodeError } from "../../../src/netlink/errors.ts";
import { MessageWriter, messagesOf } from "../../../src/netlink/message.ts";
import fc from "../../support/fast-check.ts";
import { messages } from "./answering-socket.ts";

interface Plain {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  readonly payload: readonly number[];
}

function plainMessages(bytes: Uint8Array): Plain[] {
  return [...messagesOf(bytes)].map(({ type, flags, sequence, body }) => ({
    type,
    flags,
    sequence,
    payload: [...body.bytes(body.remaining, "payload")],
  }));
}

describe("MessageWriter", () => {
  it("writes the header in host order and its length", () => {
    const bytes = messages({ type: 0x1c, flags: 5, sequence: 7, body: (writer) => writer.u32(1) });
    assert.deepEqual([...bytes], [20, 0, 0, 0, 0x1c, 0, 5, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
  });

  it("keeps its contents when the buffer grows", () => {
    const writer = new MessageWriter(8);
    for (let index = 0; index < 1000; index += 1) writer.u32(index);
    const view = new DataView(writer.written.buffer);
    assert.equal(view.getUint32(3996, true), 999);
    assert.equal(view.getUint32(0, true), 0);
  });

  it("leaves no bytes of earlier messages in padding, in zeroed fields or after texts", () => {
    const writer = new MessageWriter();
    writer.bytes(new Uint8Array(64).fill(0xff));
    writer.clear();
    const start = writer.beginAttribute(1);
    writer.u8(1);
    writer.endAttribute(start);
    writer.zeros(2);
    writer.text("rr");
    assert.deepEqual([...writer.written], [5, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0x72, 0x72, 0]);
  });

  it("writes addresses of both families after existing contents, and zeros", () => {
    const writer = new MessageWriter(8);
    writer.u8(1);
    writer.ipAddress("10.96.0.1" as IpAddress);
    writer.zeros(3);
    writer.ipAddress("2001:db8::1" as IpAddress);
    const ipv6 = [0x20, 0x01, 0x0d, 0xb8, ...new Array<number>(11).fill(0), 1];
    assert.deepEqual([...writer.written], [1, 10, 96, 0, 1, 0, 0, 0, ...ipv6]);
    assert.throws(() => writer.ipAddress("10.96.0" as IpAddress), /Not a canonical address/);
  });

  it("writes multi-byte characters", () => {
    const writer = new MessageWriter(4);
    writer.text("é€😀");
    assert.deepEqual(Buffer.from(writer.written).toString(), "é€😀\0");
  });
});

describe("messagesOf", () => {
  it("reads the messages that were written", () => {
    const anyMessage = fc.record({
      type: fc.integer({ min: 0, max: 0xffff }),
      flags: fc.integer({ min: 0, max: 0xffff }),
      sequence: fc.integer({ min: 0, max: 0xffffffff }),
      words: fc.array(fc.integer({ min: 0, max: 255 }), { maxLength: 5 }),
    });
    fc.assert(
      fc.property(fc.array(anyMessage, { maxLength: 5 }), (list) => {
        const bytes = messages(
          ...list.map(({ words, ...message }) => ({
            ...message,
            body: (writer: MessageWriter) =>
              writer.bytes(Uint8Array.from(words.flatMap((word) => [word, 0, 0, 0]))),
          })),
        );
        const expected = list.map(({ words, ...message }) => ({
          ...message,
          payload: words.flatMap((word) => [word, 0, 0, 0]),
        }));
        assert.deepEqual(plainMessages(bytes), expected);
      }),
    );
  });

  it("needs no padding after the last message", () => {
    const bytes = messages({ type: 1, sequence: 1, body: (writer) => writer.u8(9) });
    new DataView(bytes.buffer).setUint32(0, 17, true);
    assert.deepEqual(plainMessages(bytes.subarray(0, 17))[0]?.payload, [9]);
  });

  const broken: readonly { name: string; length: number }[] = [
    { name: "a length of 0, which would never end", length: 0 },
    { name: "a length below the header", length: 15 },
    { name: "a length past the end", length: 21 },
    { name: "a length of 4 GB", length: 0xffffffff },
  ];
  for (const { name, length } of broken) {
    it(`rejects ${name}`, () => {
      const bytes = messages({ type: 1, sequence: 1, body: (writer) => writer.u32(0) });
      new DataView(bytes.buffer).setUint32(0, length, true);
      assert.throws(() => plainMessages(bytes), DecodeError);
    });
  }

  it("rejects a truncated header", () => {
    const bytes = messages({ type: 1, sequence: 1 });
    for (let length = 1; length < bytes.length; length += 1) {
      assert.throws(() => plainMessages(bytes.subarray(0, length)), DecodeError);
    }
  });
});
