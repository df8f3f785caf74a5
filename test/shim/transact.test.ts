import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import {
  close,
  open,
  type SocketHandle,
  type TransactResult,
  transact,
  transactEach,
} from "../../native-shim/index.ts";
import {
  ask,
  assertOwnNamespace,
  attribute,
  errnos,
  errorNumber,
  flags,
  linkDump,
  linkOfKind,
  message,
  messagesOf,
  noop,
  protocols,
  types,
} from "./messages.ts";

const ACKNOWLEDGEMENT_BYTES = 36;
const nothing = new Uint8Array();

function call(socket: SocketHandle, bytes: Buffer, timeoutMs = 5000): Promise<TransactResult> {
  const messages = messagesOf(bytes);
  const lastSequence = messages.at(-1)?.sequence ?? 0;
  return transact(socket, bytes, lastSequence, timeoutMs);
}

describe("a netlink socket", () => {
  let socket: SocketHandle;
  before(() => {
    assertOwnNamespace();
    socket = open(protocols.route, { extendedAck: true, capAck: true, strictCheck: true });
  });
  after(() => close(socket));

  it("dumps the links, each time with the same result", async () => {
    const result = await call(socket, linkDump(1));
    assert.equal(result.errno, 0);
    const links = messagesOf(result.replies);
    assert.equal(links.at(-1)?.type, types.done);
    assert.ok(links.some(({ payload }) => payload.includes("lo\0")));
    const again = await ask(socket, linkDump(2));
    assert.deepEqual(
      again.map(({ type }) => type),
      links.map(({ type }) => type),
    );
  });

  it("executes many dumps one by one, and stops after the one that fills a piece", async () => {
    const requests = Buffer.concat([11, 12, 13].map(linkDump));
    const all = await transactEach(socket, requests, 5000, 2 ** 20);
    assert.equal(all.errno, 0);
    const ends = messagesOf(all.replies).filter(({ type }) => type === types.done);
    assert.deepEqual(
      ends.map(({ sequence }) => sequence),
      [11, 12, 13],
    );
    const one = await transactEach(socket, requests, 5000, 1);
    assert.equal(one.errno, 0);
    assert.ok(messagesOf(one.replies).every(({ sequence }) => sequence === 11));
  });

  it("rejects many requests if the last one is truncated, after executing the others", async () => {
    const requests = Buffer.concat([14, 15].map(linkDump)).subarray(0, -4);
    const result = await transactEach(socket, requests, 5000, 2 ** 20);
    assert.equal(result.errno, errnos.EBADMSG);
    assert.equal(messagesOf(result.replies).at(-1)?.sequence, 14);
  });

  it("returns the kernel's error with its message", async () => {
    const result = await call(socket, linkOfKind(3, "no-such-kind"));
    assert.equal(result.errno, 0);
    const [reply] = messagesOf(result.replies);
    assert.ok(reply !== undefined);
    assert.equal(reply.type, types.error);
    assert.equal(errorNumber(reply), errnos.EOPNOTSUPP);
    assert.match(reply.payload.toString("latin1"), /Unknown device type/);
  });

  it("returns errors for a batch's earlier requests before the last acknowledgement", async () => {
    const unacknowledged = message({ type: types.noop, flags: flags.request, sequence: 12 });
    const batch = [linkOfKind(10, "no-such-kind"), linkOfKind(11, "nor-this"), unacknowledged];
    const result = await call(socket, Buffer.concat([...batch, noop(13)]));
    assert.deepEqual(
      messagesOf(result.replies).map((reply) => [reply.sequence, errorNumber(reply)]),
      [
        [10, errnos.EOPNOTSUPP],
        [11, errnos.EOPNOTSUPP],
        [13, 0],
      ],
    );
  });

  it("sends only the given part of the buffer, as a copy", async () => {
    const bytes = Buffer.concat([Buffer.alloc(7, 0xff), noop(20), Buffer.alloc(9, 0xff)]);
    const pending = transact(socket, bytes.subarray(7, 23), 20, 5000);
    bytes.fill(0xee);
    const result = await pending;
    assert.equal(result.errno, 0);
    assert.equal(messagesOf(result.replies)[0]?.sequence, 20);
  });

  it("receives replies above 64 KB completely", async () => {
    const echoing = open(protocols.route, {});
    const payload = Buffer.concat([
      new Uint8Array(16),
      attribute(18, attribute(1, Buffer.from("no-such-kind\0"))),
      attribute(20, Buffer.alloc(60_000)),
      attribute(20, Buffer.alloc(60_000)),
    ]);
    const wanted = flags.request | flags.acknowledge | flags.create;
    const request = message({ type: types.newLink, flags: wanted, sequence: 5, payload });
    const result = await call(echoing, request);
    close(echoing);
    assert.equal(result.errno, 0);
    const [reply] = messagesOf(result.replies);
    assert.ok(reply !== undefined && reply.payload.length > 120_000);
    assert.ok(reply.payload.subarray(4).equals(request));
  });

  it("returns a long reply in pieces, of which only the last one contains the end", async () => {
    const request = linkDump(70);
    const whole = await call(socket, linkDump(71));
    const first = await transact(socket, request, 70, 5000, 1);
    assert.equal(first.errno, 0);
    let received = first.replies.length;
    for (let last = first; messagesOf(last.replies).at(-1)?.type !== types.done; ) {
      last = await transact(socket, nothing, 70, 5000, 1);
      assert.equal(last.errno, 0);
      assert.ok(last.replies.length > 0);
      received += last.replies.length;
    }
    assert.ok(first.replies.length < received);
    assert.equal(received, whole.replies.length);
    assert.equal((await transact(socket, nothing, 70, 40, 1)).errno, errnos.ETIMEDOUT);
  });

  it("ends with ETIMEDOUT and the received data", async () => {
    const silent = await transact(socket, linkDump(30), 31, 2000);
    assert.equal(silent.errno, errnos.ETIMEDOUT);
    assert.equal(messagesOf(silent.replies).at(-1)?.type, types.done);
  });

  it("does not send a call that is past its deadline", async () => {
    const early = await transact(socket, noop(32), 32, 0);
    assert.deepEqual(early, { errno: errnos.ETIMEDOUT, replies: nothing });
    const next = await call(socket, noop(34));
    assert.equal(next.errno, 0);
    assert.deepEqual(
      messagesOf(next.replies).map(({ sequence }) => sequence),
      [34],
    );
  });

  it("executes parallel calls one after another, each with its own replies", async () => {
    const sequences = Array.from({ length: 300 }, (_, index) => 1000 + index);
    const results = await Promise.all(
      sequences.map((sequence) =>
        call(socket, sequence % 3 === 0 ? linkDump(sequence) : noop(sequence)),
      ),
    );
    for (const [index, result] of results.entries()) {
      assert.equal(result.errno, 0);
      const replies = messagesOf(result.replies);
      assert.ok(replies.every(({ sequence }) => sequence === sequences[index]));
    }
    assert.equal(new Set(results.map(({ replies }) => replies.buffer)).size, results.length);
  });

  it("reports a datagram beyond the send buffer", async () => {
    const bytes = Buffer.alloc(64 * 1024 * 1024);
    const result = await transact(socket, bytes, 1, 10_000);
    assert.equal(result.errno, errnos.EMSGSIZE);
  });
});

describe("a receive buffer too small for the replies", () => {
  it("returns ENOBUFS with the replies that fit, and works again", async () => {
    const socket = open(protocols.route, { receiveBufferBytes: 2048 });
    const batch = Buffer.concat(Array.from({ length: 2000 }, (_, index) => noop(index)));
    for (let round = 0; round < 2; round += 1) {
      const result = await transact(socket, batch, 1999, 5000);
      assert.equal(result.errno, errnos.ENOBUFS);
      const replies = messagesOf(result.replies);
      assert.ok(replies.length > 0 && replies.length < 2000, `${replies.length} replies`);
      assert.deepEqual(
        replies.map(errorNumber),
        replies.map(() => 0),
      );
    }
    assert.equal((await call(socket, noop(5000))).replies.length, ACKNOWLEDGEMENT_BYTES);
    close(socket);
  });

  it("does not limit a request that is larger than the kernel's default send buffer", async () => {
    const socket = open(protocols.route, { receiveBufferBytes: 32 * 1024 * 1024 });
    const batch = Buffer.concat(Array.from({ length: 20_000 }, (_, index) => noop(index)));
    const result = await call(socket, batch);
    close(socket);
    assert.deepEqual([batch.length > 212_992, result.errno], [true, 0]);
  });

  it("is avoided by requesting a larger one", async () => {
    const socket = open(protocols.route, { receiveBufferBytes: 4 * 1024 * 1024 });
    const batch = Buffer.concat(Array.from({ length: 2000 }, (_, index) => noop(index)));
    const result = await call(socket, batch);
    close(socket);
    assert.equal(result.errno, 0);
    assert.equal(result.replies.length, 2000 * ACKNOWLEDGEMENT_BYTES);
  });
});
