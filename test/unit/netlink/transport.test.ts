import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Clock } from "../../../src/base/clock.ts";
import type { ByteReader } from "../../../src/netlink/byte-reader.ts";
import { DecodeError, NetlinkError } from "../../../src/netlink/errors.ts";
import type { Message, MessageWriter } from "../../../src/netlink/message.ts";
import type { RequestKind } from "../../../src/netlink/request.ts";
import { NetlinkTransport } from "../../../src/netlink/transport.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import {
  type Answer,
  type AnsweringSocket,
  acknowledgement,
  answeringSocket,
  done,
  type MessageFields,
  messages,
  writeRequestHeader,
  writeWords,
} from "./answering-socket.ts";

const ENOENT = 2;
const EBUSY = 16;
const EEXIST = 17;
const EINVAL = 22;
const ENOBUFS = 105;
const ETIMEDOUT = 110;
const ACK = 0x4;
const DUMP = 0x300;
const DUMP_INTERRUPTED = 0x10;

/** Requests that contain a number. */
const kind: RequestKind<number> = {
  type: () => 0x1c,
  flags: () => 0,
  encode: (writer, number) => writer.u32(number),
  describe: (number) => ({ operation: "change thing", subject: String(number) }),
};

/** A clock that ends waits immediately and records their durations. */
function impatientClock(): { readonly clock: Clock; readonly waitsMs: number[] } {
  const waitsMs: number[] = [];
  const still = new FakeClock();
  const clock: Clock = {
    nowMs: () => still.nowMs(),
    monotonicMs: () => still.monotonicMs(),
    after(delayMs, callback) {
      waitsMs.push(delayMs);
      queueMicrotask(callback);
      return () => {};
    },
  };
  return { clock, waitsMs };
}

function open(
  answer: (messages: readonly Message[], count: number) => Answer,
): AnsweringSocket & { readonly transport: NetlinkTransport; readonly waitsMs: number[] } {
  const socket = answeringSocket(answer);
  const { clock, waitsMs } = impatientClock();
  const transport = new NetlinkTransport({ shim: socket.shim, clock }, { protocol: 16 });
  return { ...socket, transport, waitsMs };
}

function sequenceOf(requests: readonly Message[]): number {
  return requests.at(-1)?.sequence ?? -1;
}

function item(sequence: number, number: number, flags = 2): MessageFields {
  return { type: 0x1c, flags, sequence, body: (writer) => writer.u32(number) };
}

function readNumber({ body }: Message): number {
  return body.u32("number");
}

function failure(errno: number): Answer {
  return { errno, replies: new Uint8Array() };
}

describe("request", () => {
  it("requests an acknowledgement and accepts a reply without data", async () => {
    const { transport, sent } = open((requests) => messages(acknowledgement(sequenceOf(requests))));
    assert.deepEqual(await transport.request(kind, 5), []);
    assert.equal(new DataView((sent[0] as Uint8Array).buffer).getUint16(6, true), 0x1 | ACK);
  });

  it("returns the messages before the acknowledgement", async () => {
    const { transport } = open((requests) => {
      const sequence = sequenceOf(requests);
      return messages(item(sequence, 42, 0), acknowledgement(sequence));
    });
    assert.deepEqual(await transport.request(kind, 5, readNumber), [42]);
  });

  it("throws the kernel's error with its message", async () => {
    const { transport } = open((requests) =>
      messages(acknowledgement(sequenceOf(requests), EEXIST, "thing exists")),
    );
    await assert.rejects(transport.request(kind, 5), {
      name: "NetlinkError",
      message: "Cannot change thing 5: EEXIST (thing exists)",
      operation: "change thing",
      subject: "5",
      code: "EEXIST",
      errno: EEXIST,
      kernelMessage: "thing exists",
    });
  });

  it("keeps the offset of the attribute that the kernel rejected", async () => {
    const { transport } = open((requests) =>
      messages({
        ...acknowledgement(sequenceOf(requests)),
        flags: 0x300,
        body(writer) {
          writer.u32(-EINVAL >>> 0);
          writeRequestHeader(writer, 24);
          writeWords(writer, "Attribute failed policy validation");
          const start = writer.beginAttribute(2);
          writer.u32(20);
          writer.endAttribute(start);
        },
      }),
    );
    await assert.rejects(transport.request(kind, 5), {
      message:
        "Cannot change thing 5: EINVAL (Attribute failed policy validation; rejected attribute at byte 20 of the request)",
      kernelMessage: "Attribute failed policy validation",
      attributeOffset: 20,
    });
  });

  it("finds the kernel's message after an echoed request, and returns the echo", async () => {
    const { transport } = open((requests) =>
      messages({
        type: 2,
        flags: 0x200,
        sequence: sequenceOf(requests),
        body(writer) {
          writer.u32(-EEXIST >>> 0);
          writeRequestHeader(writer, 22);
          writer.bytes(Uint8Array.of(1, 2, 3, 4, 5, 6, 0, 0));
          writeWords(writer, "no");
        },
      }),
    );
    await assert.rejects(transport.request(kind, 5), (error: NetlinkError) => {
      assert.equal(error.kernelMessage, "no");
      assert.deepEqual([...(error.echo ?? [])], [1, 2, 3, 4, 5, 6]);
      return true;
    });
  });

  it("accepts a successful acknowledgement without the request", async () => {
    const { transport } = open((requests) =>
      messages({
        type: 2,
        sequence: sequenceOf(requests),
        body(writer) {
          writer.u32(0);
          writeRequestHeader(writer, 36);
        },
      }),
    );
    assert.deepEqual(await transport.request(kind, 1), []);
  });

  it("ignores late replies to canceled requests", async () => {
    const { transport } = open((requests, count) => {
      const sequence = sequenceOf(requests);
      if (count === 0) return failure(ETIMEDOUT);
      return messages(acknowledgement(sequence - 1, EEXIST), acknowledgement(sequence));
    });
    await assert.rejects(transport.request(kind, 5), { code: "ETIMEDOUT" });
    assert.deepEqual(await transport.request(kind, 6), []);
  });

  it("executes one request after the other", async () => {
    const socket = open((requests) => messages(acknowledgement(sequenceOf(requests))));
    await Promise.all([1, 2, 3].map((number) => socket.transport.request(kind, number)));
    assert.equal(socket.mostAtOnce(), 1);
    assert.equal(socket.sent.length, 3);
  });

  it("continues after a failed request", async () => {
    const { transport } = open((requests, count) =>
      messages(acknowledgement(sequenceOf(requests), count === 0 ? ENOENT : 0)),
    );
    await assert.rejects(transport.request(kind, 1), { code: "ENOENT" });
    assert.deepEqual(await transport.request(kind, 2), []);
  });

  it("rejects a reply without an end, and one that is truncated anywhere", async () => {
    const whole = (sequence: number): Uint8Array =>
      messages(item(sequence, 42, 0), acknowledgement(sequence, EEXIST, "words"));
    for (let length = 0; length < whole(1).length; length += 1) {
      const { transport } = open((requests) => whole(sequenceOf(requests)).subarray(0, length));
      await assert.rejects(transport.request(kind, 5, readNumber), DecodeError, `${length} bytes`);
    }
  });

  it("explains a failed socket", async () => {
    const { transport } = open(() => failure(ENOBUFS));
    await assert.rejects(transport.request(kind, 5), {
      message:
        "Cannot change thing 5: ENOBUFS (replies were lost because the receive buffer was full; the kernel processed the requests anyway)",
    });
  });
});

describe("batch", () => {
  it("sends many messages in one datagram and requests one acknowledgement", async () => {
    const { transport, sent } = open((requests) => {
      assert.deepEqual(
        requests.map(({ flags }) => flags & ACK),
        [0, 0, ACK],
      );
      return messages(acknowledgement(sequenceOf(requests)));
    });
    assert.deepEqual(await transport.batch(kind, [1, 2, 3]), []);
    assert.equal(sent.length, 1);
  });

  it("sends nothing for an empty list", async () => {
    const { transport, sent } = open(() => assert.fail("nothing to answer"));
    assert.deepEqual(await transport.batch(kind, []), []);
    assert.equal(sent.length, 0);
  });

  it("identifies rejected messages by their sequence numbers", async () => {
    const { transport } = open((requests) => {
      const first = requests[0]?.sequence ?? 0;
      return messages(
        acknowledgement(first + 1, EEXIST),
        acknowledgement(first + 3, ENOENT, "gone"),
        acknowledgement(sequenceOf(requests)),
      );
    });
    const failed = await transport.batch(kind, [10, 11, 12, 13, 14]);
    assert.deepEqual(
      failed.map(({ index, error }) => [index, error.message]),
      [
        [1, "Cannot change thing 11: EEXIST"],
        [3, "Cannot change thing 13: ENOENT (gone)"],
      ],
    );
  });

  it("detects a rejection of the last message, which is its acknowledgement", async () => {
    const { transport } = open((requests) =>
      messages(acknowledgement(sequenceOf(requests), EEXIST)),
    );
    const failed = await transport.batch(kind, [10, 11]);
    assert.deepEqual(
      failed.map(({ index }) => index),
      [1],
    );
  });

  it("fills datagrams up to 64 KB, in order, with continuous sequence numbers", async () => {
    const numbers: number[] = [];
    const { transport, sent } = open((requests) => {
      numbers.push(...requests.map(({ body }) => body.u32("number")));
      const refused = requests.map(({ sequence }) => acknowledgement(sequence, EEXIST));
      return messages(...refused);
    });
    const list = Array.from({ length: 10_000 }, (_, index) => index);
    const failed = await transport.batch(kind, list);
    assert.equal(sent.length, Math.ceil((10_000 * 20) / 65_536));
    assert.ok(sent.every(({ length }) => length <= 65_536));
    assert.deepEqual(numbers, list);
    assert.deepEqual(
      failed.map(({ index }) => index),
      list,
    );
  });

  it("sends a message that is larger than a datagram separately", async () => {
    const large: RequestKind<number> = {
      ...kind,
      encode: (writer: MessageWriter, size) => writer.zeros(size),
    };
    const { transport, sent } = open((requests) => messages(acknowledgement(sequenceOf(requests))));
    assert.deepEqual(await transport.batch(large, [100, 70_000, 100]), []);
    assert.deepEqual(
      sent.map(({ length }) => length),
      [116, 70_016, 116],
    );
  });

  it("reports a value that fits no message and sends the others", async () => {
    const { transport, sent } = open((requests) => messages(acknowledgement(sequenceOf(requests))));
    const failed = await transport.batch(kind, [1, -1, 2, 2 ** 40]);
    assert.equal(sent[0]?.length, 40);
    assert.deepEqual(
      failed.map(({ index, error }) => [index, error.code]),
      [
        [1, "EINVAL"],
        [3, "EINVAL"],
      ],
    );
  });

  it("rejects if replies were lost, because the kernel executed everything", async () => {
    const { transport } = open(() => failure(ENOBUFS));
    await assert.rejects(transport.batch(kind, [1, 2, 3]), {
      name: "NetlinkError",
      code: "ENOBUFS",
    });
  });

  it("also rejects at NLMSG_OVERRUN", async () => {
    const { transport } = open((requests) =>
      messages({ type: 4, sequence: sequenceOf(requests), body: (writer) => writer.u32(0) }),
    );
    await assert.rejects(transport.batch(kind, [1]), { code: "ENOBUFS" });
  });

  it("ignores replies to an earlier batch and to unknown requests", async () => {
    const { transport } = open((requests, count) => {
      if (count === 0) return failure(ETIMEDOUT);
      const first = requests[0]?.sequence ?? 0;
      const last = sequenceOf(requests);
      return messages(
        acknowledgement(first - 1, EEXIST),
        acknowledgement(last + 1, EEXIST),
        acknowledgement(last),
      );
    });
    await assert.rejects(transport.batch(kind, [1, 2]), { code: "ETIMEDOUT" });
    assert.deepEqual(await transport.batch(kind, [3, 4]), []);
  });

  it("rejects replies that are truncated anywhere", async () => {
    const replies = (requests: readonly Message[]): Uint8Array => {
      const first = requests[0]?.sequence ?? 0;
      return messages(acknowledgement(first, EEXIST), acknowledgement(sequenceOf(requests)));
    };
    for (let length = 0; length < 72; length += 1) {
      const { transport } = open((requests) => replies(requests).subarray(0, length));
      await assert.rejects(transport.batch(kind, [1, 2]), DecodeError, `${length} bytes`);
    }
  });
});

describe("transaction", () => {
  const nftKind: RequestKind<number> = { ...kind, type: () => 0xa0c };

  it("encloses all messages, regardless of their size, and acknowledges the last one", async () => {
    const { transport, sent } = open((requests) => {
      assert.deepEqual(
        [requests[0], requests[1], requests.at(-2), requests.at(-1)].map((one) => [
          one?.type,
          (one?.flags ?? 0) & ACK,
          one?.sequence,
        ]),
        [
          [0x10, 0, 5000],
          [0xa0c, 0, 1],
          [0xa0c, ACK, 5000],
          [0x11, 0, 5000],
        ],
      );
      assert.equal(requests[0]?.body.u32be("nfgenmsg"), 10);
      return messages(acknowledgement(sequenceOf(requests)));
    });
    assert.deepEqual(await transport.transaction(nftKind, Array(5000).fill(7)), []);
    assert.equal(sent.length, 1);
  });

  it("sends nothing for an empty list, nor if a value fits no message", async () => {
    const { transport, sent } = open(() => assert.fail("nothing to answer"));
    assert.deepEqual(await transport.transaction(nftKind, []), []);
    const failed = await transport.transaction(nftKind, [1, -1, 2]);
    assert.deepEqual(
      failed.map(({ index, error }) => [index, error.code]),
      [[1, "EINVAL"]],
    );
    assert.equal(sent.length, 0);
  });

  it("returns each rejected message by its index", async () => {
    const { transport } = open((requests) =>
      messages(acknowledgement(2, EEXIST), acknowledgement(sequenceOf(requests))),
    );
    const failed = await transport.transaction(nftKind, [10, 11, 12]);
    assert.deepEqual(
      failed.map(({ index, error }) => [index, error.message]),
      [[1, "Cannot change thing 11: EEXIST"]],
    );
  });

  it("rejects if the kernel rejects the transaction as a whole, and continues", async () => {
    const rejection: MessageFields = {
      type: 2,
      flags: 0x100,
      sequence: 3,
      body(writer) {
        writer.u32(-EBUSY >>> 0);
        writer.u32(20);
        writer.u16(0x10);
        writer.zeros(10);
      },
    };
    const { transport } = open((requests, count) =>
      count === 0 ? messages(rejection) : messages(acknowledgement(sequenceOf(requests))),
    );
    await assert.rejects(transport.transaction(nftKind, [10, 11, 12]), /change thing .*: EBUSY/);
    assert.deepEqual(await transport.transaction(nftKind, [10]), []);
  });
});

describe("dump", () => {
  it("reads a multi-part reply to its end", async () => {
    const { transport, sent } = open((requests) => {
      const sequence = sequenceOf(requests);
      return messages(item(sequence, 1), item(sequence, 2), item(sequence, 3), done(sequence));
    });
    assert.deepEqual(await transport.dump(kind, 0, readNumber), [1, 2, 3]);
    assert.equal(new DataView((sent[0] as Uint8Array).buffer).getUint16(6, true), 0x1 | DUMP);
  });

  it("omits messages for which decode returns undefined, and empty messages", async () => {
    const { transport } = open((requests) => {
      const sequence = sequenceOf(requests);
      return messages({ type: 1, sequence }, item(sequence, 1), item(sequence, 2), done(sequence));
    });
    const odd = (message: Message): number | undefined => {
      const number = readNumber(message);
      return number % 2 === 1 ? number : undefined;
    };
    assert.deepEqual(await transport.dump(kind, 0, odd), [1]);
  });

  it("throws the error code in the end message", async () => {
    const { transport } = open((requests) => {
      const sequence = sequenceOf(requests);
      return messages(item(sequence, 1), done(sequence, ENOENT));
    });
    await assert.rejects(transport.dump(kind, 0, readNumber), { code: "ENOENT" });
  });

  it("reads again if the list changed in the meantime", async () => {
    const { transport, sent } = open((requests, count) => {
      const sequence = sequenceOf(requests);
      const flags = count === 0 ? 2 | DUMP_INTERRUPTED : 2;
      return messages(item(sequence, count, flags), done(sequence));
    });
    assert.deepEqual(await transport.dump(kind, 0, readNumber), [1]);
    assert.equal(sent.length, 2);
  });

  it("gives up if the list keeps changing", async () => {
    const { transport, sent, waitsMs } = open((requests) => {
      const sequence = sequenceOf(requests);
      return messages(item(sequence, 1, DUMP_INTERRUPTED), done(sequence));
    });
    await assert.rejects(transport.dump(kind, 0, readNumber), {
      message: "Cannot change thing 0: EAGAIN (the dumped objects kept changing)",
    });
    assert.equal(sent.length, 6);
    assert.deepEqual(waitsMs, [5, 10, 20, 40, 80]);
  });

  it("waits with growing delays while another dump is running", async () => {
    const { transport, waitsMs } = open((requests, count) => {
      const sequence = sequenceOf(requests);
      if (count < 3) return messages(acknowledgement(sequence, EBUSY));
      return messages(item(sequence, 7), done(sequence));
    });
    assert.deepEqual(await transport.dump(kind, 0, readNumber), [7]);
    assert.deepEqual(waitsMs, [5, 10, 20]);
  });

  it("reads the rest of a long dump that timed out, of which each attempt reads a part", async () => {
    const { transport, waitsMs } = open((requests, count) => {
      const sequence = sequenceOf(requests);
      if (count === 0) return failure(ETIMEDOUT);
      if (count < 40) return messages(item(1, 9), acknowledgement(sequence, EBUSY));
      return messages(item(1, 9), done(1), item(sequence, 7), done(sequence));
    });
    await assert.rejects(transport.dump(kind, 0, readNumber), { code: "ETIMEDOUT" });
    assert.deepEqual(await transport.dump(kind, 0, readNumber), [7]);
    assert.deepEqual(waitsMs, []);
  });

  it("gives up if the other dump never ends", async () => {
    const { transport } = open((requests) =>
      messages(acknowledgement(sequenceOf(requests), EBUSY)),
    );
    await assert.rejects(transport.dump(kind, 0, readNumber), { code: "EBUSY" });
  });

  it("reads a long list in pieces, with one request", async () => {
    let sequence = 0;
    const long = Array.from({ length: 3_000 }, (_, number) => number);
    const { transport, sent } = open((requests, count) => {
      if (count === 0) sequence = sequenceOf(requests);
      if (count === 2) return messages(item(sequence, 1), done(sequence));
      return messages(...long.map((number) => item(sequence, number)));
    });
    const listed = await transport.dump(kind, 0, readNumber);
    assert.deepEqual(listed, [...long, ...long, 1]);
    assert.deepEqual(
      sent.map(({ length }) => length),
      [20, 0, 0],
    );
  });

  it("reads a long list to its end even if it cannot be decoded, so that the next dump can start", async () => {
    let sequence = 0;
    const { transport, sent } = open((requests, count) => {
      if (count === 0) sequence = sequenceOf(requests);
      if (count === 2) return messages(item(sequence, 1), done(sequence));
      return messages(...Array.from({ length: 3_000 }, () => item(sequence, 1)));
    });
    let decoded = 0;
    const refuse = (): never => {
      decoded += 1;
      throw new DecodeError("not what was asked for", 0);
    };
    await assert.rejects(transport.dump(kind, 0, refuse), /not what was asked for/);
    assert.equal(sent.length, 3);
    assert.equal(decoded, 1);
  });

  it("fails if the socket cannot receive a piece", async () => {
    const { transport } = open((requests, count) => {
      if (count > 0) return { errno: ENOBUFS, replies: new Uint8Array(0) };
      const sequence = sequenceOf(requests);
      return messages(...Array.from({ length: 3_000 }, () => item(sequence, 1)));
    });
    await assert.rejects(transport.dump(kind, 0, readNumber), { code: "ENOBUFS" });
  });

  it("rejects a list that is truncated anywhere", async () => {
    const whole = (sequence: number): Uint8Array =>
      messages(item(sequence, 1), item(sequence, 2), done(sequence));
    for (let length = 0; length < whole(1).length; length += 1) {
      const { transport } = open((requests) => whole(sequenceOf(requests)).subarray(0, length));
      await assert.rejects(transport.dump(kind, 0, readNumber), DecodeError, `${length} bytes`);
    }
  });
});

describe("dumpMany", () => {
  const readNumbers = (messages: readonly ByteReader[]): readonly number[] =>
    messages.map((body) => body.u32("number"));

  it("returns each request's own list, in order", async () => {
    const { transport } = open((requests) => {
      const sequence = sequenceOf(requests);
      const number = requests[0]?.body.u32("number") ?? 0;
      return messages(item(sequence, number), item(sequence, number + 1), done(sequence));
    });
    const lists = await transport.dumpMany(kind, [10, 20], (bodies, request) => [
      request,
      ...readNumbers(bodies),
    ]);
    assert.deepEqual(lists, [
      [10, 10, 11],
      [20, 20, 21],
    ]);
  });

  it("continues with further calls if replies are long or there are many requests", async () => {
    for (const [count, width] of [
      [700, 1],
      [300, 500],
    ] as const) {
      const { transport, sent } = open((requests) => {
        const sequence = sequenceOf(requests);
        const number = requests[0]?.body.u32("number") ?? 0;
        const items = Array.from({ length: width }, () => item(sequence, number));
        return messages(...items, done(sequence));
      });
      const wanted = Array.from({ length: count }, (_, index) => index);
      const lists = await transport.dumpMany(kind, wanted, readNumbers);
      assert.deepEqual(
        lists.map((list) => [list.length, list.at(-1)]),
        wanted.map((number) => [width, number]),
      );
      assert.equal(sent.length, count);
    }
  });

  it("skips late replies to a canceled request", async () => {
    const { transport } = open((requests) => {
      const sequence = sequenceOf(requests);
      const late = sequence + 1000;
      return messages(item(late, 7), done(late), item(sequence, 1), done(sequence));
    });
    assert.deepEqual(await transport.dumpMany(kind, [1, 2], readNumbers), [[1], [1]]);
  });

  it("reads one list again without losing the others", async () => {
    const interrupted = 0x10;
    for (const spoilt of [
      (sequence: number) => [acknowledgement(sequence, EBUSY)],
      (sequence: number) => [item(sequence, 9, 2 | interrupted), done(sequence)],
    ]) {
      const { transport, sent } = open((requests, count) => {
        const sequence = sequenceOf(requests);
        if (count === 1) return messages(...spoilt(sequence));
        return messages(item(sequence, count), done(sequence));
      });
      assert.deepEqual(await transport.dumpMany(kind, [1, 2, 3], readNumbers), [[0], [3], [2]]);
      assert.equal(sent.length, 4);
    }
  });

  it("rejects with the error of any request, and if the socket fails", async () => {
    const refused = open((requests, count) =>
      messages(count === 1 ? acknowledgement(sequenceOf(requests), 1) : done(sequenceOf(requests))),
    );
    await assert.rejects(refused.transport.dumpMany(kind, [1, 2, 3], readNumbers), /EPERM/);
    const lost = open(() => ({ errno: 105, replies: new Uint8Array() }));
    await assert.rejects(lost.transport.dumpMany(kind, [1, 2], readNumbers), /ENOBUFS/);
    const silent = open(() => new Uint8Array());
    await assert.rejects(silent.transport.dumpMany(kind, [1, 2], readNumbers), DecodeError);
  });
});

describe("NetlinkTransport", () => {
  it("names the protocol if the socket cannot be opened", () => {
    const { shim } = answeringSocket(() => new Uint8Array());
    const failing = {
      ...shim,
      open: () => {
        throw Object.assign(new Error("no"), { errno: 1, operation: "open" });
      },
    };
    assert.throws(
      () => new NetlinkTransport({ shim: failing, clock: new FakeClock() }, { protocol: 16 }),
      (error: NetlinkError) => {
        assert.ok(error instanceof NetlinkError);
        assert.equal(error.message, "Cannot open netlink socket of protocol 16: EPERM");
        return true;
      },
    );
  });

  it("closes the socket", () => {
    const socket = open(() => new Uint8Array());
    socket.transport.close();
    assert.equal(socket.isClosed(), true);
  });
});
