import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { close, open, transact, watch } from "../../native-shim/index.ts";
import { errnos, linkGroup, noop, protocols } from "./messages.ts";

/** Calls with arguments that the types forbid. */
type Loose = (...args: unknown[]) => unknown;

describe("wrong arguments", () => {
  const socket = open(protocols.route, {});
  const closed = open(protocols.route, {});
  close(closed);
  const bytes = noop(1);

  const wrongOptions: readonly (readonly [string, unknown])[] = [
    ["none", undefined],
    ["null", null],
    ["text as a buffer size", { receiveBufferBytes: "1" }],
    ["a fraction of a byte", { receiveBufferBytes: 1.5 }],
    ["a buffer above 1 GiB", { receiveBufferBytes: 2 ** 31 }],
  ];
  for (const [name, options] of wrongOptions) {
    it(`open() rejects options: ${name}`, () => {
      assert.throws(() => (open as Loose)(protocols.route, options), TypeError);
    });
  }
  for (const protocol of [undefined, "0", -1, 0.5, Number.NaN, 2 ** 31]) {
    it(`open() rejects protocol ${String(protocol)}`, () => {
      assert.throws(() => (open as Loose)(protocol, {}), TypeError);
    });
  }

  const wrongCalls: readonly (readonly [string, readonly unknown[]])[] = [
    ["no arguments", []],
    ["an object that is not a socket", [{}, bytes, 1, 10]],
    ["a copy of a socket", [{ ...socket }, bytes, 1, 10]],
    ["something that inherits from a socket", [Object.create(socket), bytes, 1, 10]],
    ["text as a request", [socket, "abc", 1, 10]],
    ["words instead of bytes", [socket, new Uint16Array(8), 1, 10]],
    ["an ArrayBuffer", [socket, new ArrayBuffer(16), 1, 10]],
    ["nothing to send", [socket, new Uint8Array(), 1, 10]],
    ["an invalid sequence number", [socket, bytes, -1, 10]],
    ["a sequence number of 33 bits", [socket, bytes, 2 ** 32, 10]],
    ["no time-out", [socket, bytes, 1]],
    ["a negative timeout", [socket, bytes, 1, -1]],
    ["an infinite timeout", [socket, bytes, 1, Number.POSITIVE_INFINITY]],
    ["a timeout that is not a number", [socket, bytes, 1, Number.NaN]],
  ];
  for (const [name, args] of wrongCalls) {
    it(`transact() rejects ${name}`, () => {
      assert.throws(() => (transact as Loose)(...args), TypeError);
    });
  }

  for (const pieceBytes of [-1, 1.5, "1", 2 ** 29]) {
    it(`transact() rejects pieces of ${pieceBytes}`, () => {
      assert.throws(() => (transact as Loose)(socket, bytes, 1, 10, pieceBytes), TypeError);
    });
  }

  it("watch() and close() reject arguments other than a socket or a callback", () => {
    assert.throws(() => (watch as Loose)({}, () => {}), TypeError);
    assert.throws(() => (watch as Loose)(socket, {}), TypeError);
    assert.throws(() => (watch as Loose)(socket), TypeError);
    assert.throws(() => (close as Loose)(null), TypeError);
    assert.throws(() => (close as Loose)(new Date()), TypeError);
  });
});

describe("open()", () => {
  const failures = [
    { protocol: 99, options: {}, errno: errnos.EPROTONOSUPPORT, operation: "socket" },
    { protocol: 0, options: { groups: [9999] }, errno: errnos.EINVAL, operation: "join group" },
  ];
  for (const { protocol, options, errno, operation } of failures) {
    it(`names the failed operation: ${operation}`, () => {
      assert.throws(() => open(protocol, options), { errno, operation, name: "Error" });
    });
  }

  it("accepts every option", () => {
    const socket = open(protocols.route, {
      receiveBufferBytes: 65536,
      extendedAck: true,
      capAck: false,
      strictCheck: true,
      groups: [linkGroup, 5, 9],
    });
    close(socket);
  });
});

describe("a closed socket", () => {
  it("returns EBADF", async () => {
    const socket = open(protocols.route, {});
    close(socket);
    close(socket);
    const result = await transact(socket, noop(1), 1, 1000);
    assert.deepEqual(
      { ...result, replies: result.replies.length },
      { errno: errnos.EBADF, replies: 0 },
    );
    assert.throws(() => watch(socket, () => {}), { errno: errnos.EBADF, operation: "watch" });
  });
});
